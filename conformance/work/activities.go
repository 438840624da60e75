// Package work is ordinary work for a Temporal cluster whose outcome is known beforehand: workflows, their activities,
// and what each must answer.
package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
)

// Activities are registered by their names.
type Activities struct{}

// Add answers the sum.
func (Activities) Add(_ context.Context, a, b int) (int, error) { return a + b, nil }

// FailTwice answers the first attempt that may work, 3. A lost worker may have cost that one.
func (Activities) FailTwice(ctx context.Context) (int, error) {
	attempt := int(activity.GetInfo(ctx).Attempt)
	if attempt < 3 {
		return 0, fmt.Errorf("attempt %d is to fail", attempt)
	}
	return 3, nil
}

// Resume goes silent after the heartbeat "half" in its first attempt; a later one finds that heartbeat and goes on.
func (Activities) Resume(ctx context.Context) (string, error) {
	if activity.HasHeartbeatDetails(ctx) {
		var done string
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			return "", err
		}
		return done + " and half", nil
	}
	activity.RecordHeartbeat(ctx, "half")
	select {
	case <-ctx.Done(): // The heartbeat timed out, or the worker stops.
		return "", ctx.Err()
	case <-time.After(time.Minute):
		return "", errors.New("no heartbeat timeout came")
	}
}

// UntilCancelled heartbeats until somebody cancels it.
func (Activities) UntilCancelled(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// Echo answers what it got.
func (Activities) Echo(_ context.Context, payload []byte) ([]byte, error) { return payload, nil }
