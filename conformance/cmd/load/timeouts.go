package main

import (
	"context"
	"fmt"
	"io"
	"sort"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// countTimeouts reads the histories and prints how many tasks a time-out gave back. A task that got lost on its way to
// a worker shows there, and nowhere in the results. The answer leaves out what the Heartbeats kind times out on purpose.
func countTimeouts(ctx context.Context, c client.Client, out io.Writer, results []result) (int, error) {
	counts := map[string]int{}
	for _, r := range results {
		events := c.GetWorkflowHistory(ctx, r.id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return 0, fmt.Errorf("history of %s: %w", r.id, err)
			}
			if what := timedOut(event); what != "" {
				counts[what]++
			}
		}
	}
	names := make([]string, 0, len(counts))
	total := 0
	for name, count := range counts {
		names = append(names, name)
		total += count
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "%5d times %s\n", counts[name], name)
	}
	return total, nil
}

// timedOut names the time-out that the event tells of; empty: none, or one that is meant.
func timedOut(event *history.HistoryEvent) string {
	if a := event.GetWorkflowTaskTimedOutEventAttributes(); a != nil {
		return "workflow task timed out, " + a.GetTimeoutType().String()
	}
	if a := event.GetActivityTaskTimedOutEventAttributes(); a != nil {
		return "activity timed out, " + a.GetFailure().GetTimeoutFailureInfo().GetTimeoutType().String()
	}
	// Earlier attempts have no events; the last failure of the one that started is kept.
	cause := event.GetActivityTaskStartedEventAttributes().GetLastFailure().GetTimeoutFailureInfo()
	if cause == nil || cause.GetTimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT {
		return ""
	}
	return "attempt of an activity timed out, " + cause.GetTimeoutType().String()
}
