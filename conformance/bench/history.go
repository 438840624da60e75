// Package bench loads a matching service with tasks and polls and stands in for history, so that what is measured is
// matching alone.
package bench

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/server/api/historyservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// History is a history service that lets every task start, with answers as large as those of a small workflow.
type History struct {
	historyservice.UnimplementedHistoryServiceServer
	server *grpc.Server
	starts atomic.Int64
}

// StartHistory serves on address until Stop.
func StartHistory(address string) (*History, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	h := &History{server: grpc.NewServer()}
	historyservice.RegisterHistoryServiceServer(h.server, h)
	healthpb.RegisterHealthServer(h.server, health.NewServer())
	go h.server.Serve(listener)
	return h, nil
}

// Stop ends serving.
func (h *History) Stop() { h.server.Stop() }

// Starts is how many tasks were asked to start so far.
func (h *History) Starts() int64 { return h.starts.Load() }

// RecordActivityTaskStarted answers an activity with a small input.
func (h *History) RecordActivityTaskStarted(_ context.Context, r *historyservice.RecordActivityTaskStartedRequest) (
	*historyservice.RecordActivityTaskStartedResponse, error) {
	h.starts.Add(1)
	now := timestamppb.Now()
	minute := durationpb.New(time.Minute)
	return &historyservice.RecordActivityTaskStartedResponse{
		ScheduledEvent: &historypb.HistoryEvent{
			EventId:   r.GetScheduledEventId(),
			EventTime: now,
			EventType: enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
			Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
				ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
					ActivityId:             fmt.Sprint(r.GetScheduledEventId()),
					ActivityType:           &commonpb.ActivityType{Name: "bench"},
					TaskQueue:              &taskqueuepb.TaskQueue{Name: "bench", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
					Input:                  &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: make([]byte, 200)}}},
					ScheduleToCloseTimeout: minute,
					StartToCloseTimeout:    minute,
					HeartbeatTimeout:       minute,
				},
			},
		},
		StartedTime:                 now,
		CurrentAttemptScheduledTime: now,
		Attempt:                     1,
		WorkflowType:                &commonpb.WorkflowType{Name: "bench"},
		WorkflowNamespace:           "default",
	}, nil
}
