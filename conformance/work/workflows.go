package work

import (
	"bytes"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// largePayloadBytes is near the 2 MiB that a payload may have.
const largePayloadBytes = 2<<20 - 4<<10

// withActivities sets times that a killed worker costs a retry, never the workflow.
func withActivities(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 1.5, MaximumInterval: time.Second},
	})
}

func add(ctx workflow.Context, a, b int) (sum int, err error) {
	err = workflow.ExecuteActivity(ctx, "Add", a, b).Get(ctx, &sum)
	return sum, err
}

// Chain runs three activities one after the other, then two at once.
func Chain(ctx workflow.Context, n int) (int, error) {
	ctx = withActivities(ctx)
	sum := n
	for i := 0; i < 3; i++ {
		var err error
		if sum, err = add(ctx, sum, 1); err != nil {
			return 0, err
		}
	}
	left, right := workflow.ExecuteActivity(ctx, "Add", sum, 10), workflow.ExecuteActivity(ctx, "Add", sum, 20)
	var a, b int
	if err := left.Get(ctx, &a); err != nil {
		return 0, err
	}
	if err := right.Get(ctx, &b); err != nil {
		return 0, err
	}
	return a + b, nil
}

// Timers sleeps twice around an activity.
func Timers(ctx workflow.Context, n int) (int, error) {
	ctx = withActivities(ctx)
	if err := workflow.Sleep(ctx, 300*time.Millisecond); err != nil {
		return 0, err
	}
	sum, err := add(ctx, n, 1)
	if err != nil {
		return 0, err
	}
	return sum, workflow.Sleep(ctx, 200*time.Millisecond)
}

// SignalName is what Signals listens to.
const SignalName = "amount"

// Signals adds up three signals, each with an activity.
func Signals(ctx workflow.Context, n int) (int, error) {
	ctx = withActivities(ctx)
	channel := workflow.GetSignalChannel(ctx, SignalName)
	for i := 0; i < 3; i++ {
		var amount int
		channel.Receive(ctx, &amount)
		var err error
		if n, err = add(ctx, n, amount); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Children runs two child workflows at once and adds their results.
func Children(ctx workflow.Context, n int) (int, error) {
	var futures []workflow.ChildWorkflowFuture
	for i := 0; i < 2; i++ {
		id := fmt.Sprintf("%s/child%d", workflow.GetInfo(ctx).WorkflowExecution.ID, i)
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: id})
		futures = append(futures, workflow.ExecuteChildWorkflow(child, "Chain", n+i))
	}
	sum := 0
	for _, future := range futures {
		var part int
		if err := future.Get(ctx, &part); err != nil {
			return 0, err
		}
		sum += part
	}
	return sum, nil
}

// Local runs local activities around an ordinary one.
func Local(ctx workflow.Context, n int) (int, error) {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: 5 * time.Second})
	for i := 0; i < 3; i++ {
		if err := workflow.ExecuteLocalActivity(local, "Add", n, 1).Get(ctx, &n); err != nil {
			return 0, err
		}
	}
	return add(withActivities(ctx), n, 1)
}

// Retries needs the third attempt of an activity.
func Retries(ctx workflow.Context, n int) (attempt int, err error) {
	err = workflow.ExecuteActivity(withActivities(ctx), "FailTwice").Get(ctx, &attempt)
	return n + attempt, err
}

// Heartbeats needs an attempt that goes on where one that timed out had been.
func Heartbeats(ctx workflow.Context, n int) (string, error) {
	ctx = workflow.WithHeartbeatTimeout(withActivities(ctx), time.Second)
	ctx = workflow.WithStartToCloseTimeout(ctx, time.Minute)
	var done string
	err := workflow.ExecuteActivity(ctx, "Resume").Get(ctx, &done)
	return fmt.Sprintf("%d: %s", n, done), err
}

// Cancelled waits in an activity until the workflow is cancelled, then cleans up with another one.
func Cancelled(ctx workflow.Context, n int) (int, error) {
	waiting := workflow.WithHeartbeatTimeout(withActivities(ctx), 5*time.Second)
	waiting = workflow.WithStartToCloseTimeout(waiting, 2*time.Minute)
	waiting = workflow.WithWaitForCancellation(waiting, true)
	err := workflow.ExecuteActivity(waiting, "UntilCancelled").Get(ctx, nil)
	// Its worker may be lost after the cancellation was asked for: then it times out and is not tried again.
	if ctx.Err() == nil || err == nil {
		return 0, fmt.Errorf("the activity ended without a cancellation: %w", err)
	}
	cleanup, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return add(withActivities(cleanup), n, 1000)
}

// Continued continues as new twice.
func Continued(ctx workflow.Context, n, runs int) (int, error) {
	n, err := add(withActivities(ctx), n, 1)
	if err != nil || runs == 1 {
		return n, err
	}
	return 0, workflow.NewContinueAsNewError(ctx, "Continued", n, runs-1)
}

// Large sends a payload near the limit through an activity and back.
func Large(ctx workflow.Context, n int) (int, error) {
	payload := bytes.Repeat([]byte{byte(n)}, largePayloadBytes*3/4) // Base64 within JSON makes it a third larger.
	var back []byte
	if err := workflow.ExecuteActivity(withActivities(ctx), "Echo", payload).Get(ctx, &back); err != nil {
		return 0, err
	}
	if !bytes.Equal(back, payload) {
		return 0, temporal.NewNonRetryableApplicationError("the payload came back changed", "Changed", nil)
	}
	return len(back), nil
}
