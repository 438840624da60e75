package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/api/matchingservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Engine is a matching service that runs somewhere on this machine.
type Engine struct {
	Name, Address string
	Pid           int
}

// Figures is what one phase showed.
type Figures struct {
	Engine        string  `json:"engine"`
	Phase         string  `json:"phase"`
	Queues        int     `json:"queues"`
	Tasks         int     `json:"tasks"`
	TasksPerSec   float64 `json:"tasks_per_s"`
	CPUMicros     float64 `json:"cpu_us_per_task"`
	LatencyP50    float64 `json:"latency_p50_ms"`
	LatencyP99    float64 `json:"latency_p99_ms"`
	ResidentBytes int64   `json:"resident_bytes"`
}

// Generator adds and polls activity tasks.
type Generator struct {
	Engine      Engine
	NamespaceID string
	Adders      int // Calls that add at the same time.
	Pollers     int // Calls that poll at the same time.

	connections []*grpc.ClientConn
	run         string // Makes the queues of this generator its own.
}

const runID = "3c8f0f4e-8a39-4d4f-9d8b-0a6d8c3f9b11"

// Connect opens the connections: a few, as a frontend and a few history hosts would.
func (g *Generator) Connect() error {
	g.run = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	for i := 0; i < 4; i++ {
		connection, err := grpc.NewClient(g.Engine.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		g.connections = append(g.connections, connection)
	}
	return nil
}

// Close closes the connections.
func (g *Generator) Close() {
	for _, connection := range g.connections {
		connection.Close()
	}
}

func (g *Generator) client(i int) matchingservice.MatchingServiceClient {
	return matchingservice.NewMatchingServiceClient(g.connections[i%len(g.connections)])
}

func (g *Generator) queue(phase string, i int) string {
	return fmt.Sprintf("%s-%s-%d", g.run, phase, i)
}

func normal(name string) *taskqueuepb.TaskQueue {
	return &taskqueuepb.TaskQueue{Name: name, Kind: enumspb.TASK_QUEUE_KIND_NORMAL}
}

// addAll adds tasks round robin over the queues; before hears the number of each just before its call, after behind it.
func (g *Generator) addAll(ctx context.Context, phase string, queues, tasks int, before, after func(n int)) error {
	var next atomic.Int64
	return together(g.Adders, func(i int) error {
		client := g.client(i)
		for {
			n := int(next.Add(1)) - 1
			if n >= tasks {
				return nil
			}
			before(n)
			call, cancel := context.WithTimeout(ctx, 30*time.Second)
			_, err := client.AddActivityTask(call, &matchingservice.AddActivityTaskRequest{
				NamespaceId:            g.NamespaceID,
				Execution:              &commonpb.WorkflowExecution{WorkflowId: fmt.Sprintf("bench-%d", n), RunId: runID},
				TaskQueue:              normal(g.queue(phase, n%queues)),
				ScheduledEventId:       int64(n) + 1,
				ScheduleToStartTimeout: durationpb.New(time.Hour),
			})
			cancel()
			if err != nil {
				return fmt.Errorf("add task %d: %w", n, err)
			}
			after(n)
		}
	})
}

// pollAll polls until got has heard of so many different tasks.
func (g *Generator) pollAll(ctx context.Context, phase string, queues, tasks int, got func(n int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make([]atomic.Bool, tasks)
	var count atomic.Int64
	err := together(g.Pollers, func(i int) error {
		client := g.client(i)
		for ctx.Err() == nil {
			n, err := g.poll(ctx, client, g.queue(phase, i%queues), time.Minute)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("poll: %w", err)
			}
			if n < 0 {
				continue
			}
			if n >= tasks || seen[n].Swap(true) {
				cancel()
				return fmt.Errorf("task %d came twice or was never added", n)
			}
			got(n)
			if count.Add(1) == int64(tasks) {
				cancel()
			}
		}
		return nil
	})
	if err == nil && count.Load() < int64(tasks) {
		err = fmt.Errorf("only %d of %d tasks came", count.Load(), tasks)
	}
	return err
}

// poll answers the number of the task it got, or a negative one.
func (g *Generator) poll(ctx context.Context, client matchingservice.MatchingServiceClient, queue string, wait time.Duration) (int, error) {
	call, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	reply, err := client.PollActivityTaskQueue(call, &matchingservice.PollActivityTaskQueueRequest{
		NamespaceId: g.NamespaceID,
		PollRequest: &workflowservice.PollActivityTaskQueueRequest{TaskQueue: normal(queue), Identity: "bench"},
	})
	if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
		return -1, nil
	}
	if err != nil || len(reply.GetTaskToken()) == 0 {
		return -1, err
	}
	var n int
	_, err = fmt.Sscanf(reply.GetWorkflowExecution().GetWorkflowId(), "bench-%d", &n)
	return n, err
}

// measure runs work between two looks at the process.
func (g *Generator) measure(phase string, queues, tasks int, latencies []time.Duration, work func() error) (Figures, error) {
	before, err := CPU(g.Engine.Pid)
	if err != nil {
		return Figures{}, err
	}
	started := time.Now()
	if err := work(); err != nil {
		return Figures{}, fmt.Errorf("%s, %s, %d queues: %w", g.Engine.Name, phase, queues, err)
	}
	took := time.Since(started)
	after, err := CPU(g.Engine.Pid)
	if err != nil {
		return Figures{}, err
	}
	f := Figures{Engine: g.Engine.Name, Phase: phase, Queues: queues, Tasks: tasks,
		TasksPerSec: float64(tasks) / took.Seconds(),
		CPUMicros:   float64((after - before).Microseconds()) / float64(tasks)}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		f.LatencyP50 = float64(latencies[len(latencies)/2].Microseconds()) / 1000
		f.LatencyP99 = float64(latencies[len(latencies)*99/100].Microseconds()) / 1000
	}
	f.ResidentBytes, err = Memory(g.Engine.Pid)
	return f, err
}

// together runs work in so many goroutines and answers all their errors.
func together(count int, work func(i int) error) error {
	errs := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { errs[i] = work(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}
