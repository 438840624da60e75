package work

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// Kind is one sort of workflow.
type Kind struct {
	Name string
	// Weight is how many of a hundred workflows are of this kind.
	Weight int
	Args   func(n int) []any
	// Drive does from outside what the workflow waits for; nil: nothing.
	Drive func(ctx context.Context, c client.Client, run client.WorkflowRun) error
	// Check reads the result and answers what is wrong with it.
	Check func(ctx context.Context, run client.WorkflowRun, n int) error
}

func justN(n int) []any { return []any{n} }

// result checks that the workflow answers what is expected of n.
func result[T comparable](expected func(n int) T) func(context.Context, client.WorkflowRun, int) error {
	return func(ctx context.Context, run client.WorkflowRun, n int) error {
		var got T
		if err := run.Get(ctx, &got); err != nil {
			return err
		}
		if want := expected(n); got != want {
			return fmt.Errorf("answered %v instead of %v", got, want)
		}
		return nil
	}
}

func chain(n int) int { return 2*(n+3) + 30 }

// Kinds is every kind; the weights add up to 100.
var Kinds = []Kind{
	{Name: "Chain", Weight: 20, Args: justN, Check: result(chain)},
	{Name: "Timers", Weight: 12, Args: justN, Check: result(func(n int) int { return n + 1 })},
	{Name: "Signals", Weight: 15, Args: justN, Drive: signal, Check: result(func(n int) int { return n + 6 })},
	{Name: "Children", Weight: 12, Args: justN, Check: result(func(n int) int { return chain(n) + chain(n+1) })},
	{Name: "Local", Weight: 12, Args: justN, Check: result(func(n int) int { return n + 4 })},
	{Name: "Retries", Weight: 10, Args: justN, Check: result(func(n int) int { return n + 3 })},
	{Name: "Heartbeats", Weight: 4, Args: justN,
		Check: result(func(n int) string { return fmt.Sprintf("%d: half and half", n) })},
	{Name: "Cancelled", Weight: 4, Args: justN, Drive: cancel, Check: result(func(n int) int { return n + 1000 })},
	{Name: "Continued", Weight: 10, Args: func(n int) []any { return []any{n, 3} },
		Check: result(func(n int) int { return n + 3 })},
	{Name: "Large", Weight: 1, Args: justN, Check: result(func(int) int { return largePayloadBytes * 3 / 4 })},
}

// KindOf is the kind of the n-th workflow: any hundred in a row hold every kind by its weight, well mixed.
func KindOf(n int) Kind {
	place := n * 37 % 100
	for _, kind := range Kinds {
		if place -= kind.Weight; place < 0 {
			return kind
		}
	}
	panic("the weights do not add up to 100")
}

func signal(ctx context.Context, c client.Client, run client.WorkflowRun) error {
	for amount := 1; amount <= 3; amount++ {
		if err := c.SignalWorkflow(ctx, run.GetID(), run.GetRunID(), SignalName, amount); err != nil {
			return err
		}
	}
	return nil
}

// cancel comes while the activity runs.
func cancel(ctx context.Context, c client.Client, run client.WorkflowRun) error {
	for {
		described, err := c.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
		if err != nil {
			return err
		}
		pending := described.GetPendingActivities()
		if len(pending) > 0 && pending[0].GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return c.CancelWorkflow(ctx, run.GetID(), run.GetRunID())
}

// Register makes a worker able to run all of it.
func Register(w worker.Registry) {
	for _, workflow := range []any{Chain, Timers, Signals, Children, Local, Retries, Heartbeats, Cancelled, Continued, Large} {
		w.RegisterWorkflow(workflow)
	}
	w.RegisterActivity(&Activities{})
}
