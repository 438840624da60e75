package bench

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// matchingHealthName is the name under which Temporal's services ask a matching service for its health.
const matchingHealthName = "temporal.api.workflowservice.v1.MatchingService"

// AwaitHealthy waits until the matching service there serves.
func AwaitHealthy(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := healthpb.NewHealthClient(connection)
	for {
		reply, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: matchingHealthName}, grpc.WaitForReady(true))
		if err == nil && reply.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("no answer that it serves"), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
