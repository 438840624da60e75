package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// HistoryShards is the number of shards of a cluster started here.
const HistoryShards = 4

func splitAddresses(text string) []string { return strings.Split(text, ",") }

// RegisterNamespace makes the namespace unless it is there and waits until the frontend serves it. It answers its id.
func RegisterNamespace(ctx context.Context, frontend, name string) (string, error) {
	c, err := client.NewNamespaceClient(client.Options{HostPort: frontend})
	if err != nil {
		return "", err
	}
	defer c.Close()
	for {
		err := c.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: name,
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		var exists *serviceerror.NamespaceAlreadyExists
		if err == nil || errors.As(err, &exists) {
			break
		}
		if err := pause(ctx, err); err != nil {
			return "", err
		}
	}
	// The namespace is in the database; the frontend's cache is asked by a call that needs it there.
	open, err := client.DialContext(ctx, client.Options{HostPort: frontend, Namespace: name})
	if err != nil {
		return "", err
	}
	defer open.Close()
	for {
		_, err := open.WorkflowService().ListWorkflowExecutions(ctx,
			&workflowservice.ListWorkflowExecutionsRequest{Namespace: name, PageSize: 1})
		if err == nil {
			break
		}
		if err := pause(ctx, err); err != nil {
			return "", err
		}
	}
	described, err := c.Describe(ctx, name)
	if err != nil {
		return "", err
	}
	return described.GetNamespaceInfo().GetId(), nil
}

// pause waits before the next try; when there is none it answers the last error too.
func pause(ctx context.Context, last error) error {
	select {
	case <-ctx.Done():
		return errors.Join(ctx.Err(), last)
	case <-time.After(200 * time.Millisecond):
		return nil
	}
}
