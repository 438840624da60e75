package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sync adds tasks while more pollers wait than tasks are being added. Latency: from the call that adds a task to the
// answer of the poll that got it.
func (g *Generator) Sync(ctx context.Context, queues, tasks int) (Figures, error) {
	phase := fmt.Sprintf("sync%d", queues)
	if err := g.warmUp(ctx, phase, queues); err != nil {
		return Figures{}, err
	}
	added := make([]time.Time, tasks)
	latencies := make([]time.Duration, tasks)
	return g.measure("sync match", queues, tasks, latencies, func() error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		polls := make(chan error, 1)
		go func() {
			polls <- g.pollAll(ctx, phase, queues, tasks, func(n int) { latencies[n] = time.Since(added[n]) })
		}()
		err := g.addAll(ctx, phase, queues, tasks, func(n int) { added[n] = time.Now() }, func(int) {})
		if err != nil {
			cancel()
		}
		return errors.Join(err, <-polls)
	})
}

// SpoolAndDrain adds tasks that nobody polls, then polls them. Latency: of the call that adds.
func (g *Generator) SpoolAndDrain(ctx context.Context, queues, tasks int) (spool, drain Figures, err error) {
	phase := fmt.Sprintf("spool%d", queues)
	if err := g.warmUp(ctx, phase, queues); err != nil {
		return spool, drain, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	added := make([]time.Time, tasks)
	latencies := make([]time.Duration, tasks)
	spool, err = g.measure("spool", queues, tasks, latencies, func() error {
		return g.addAll(ctx, phase, queues, tasks, func(n int) { added[n] = time.Now() },
			func(n int) { latencies[n] = time.Since(added[n]) })
	})
	if err != nil {
		return spool, drain, err
	}
	drain, err = g.measure("drain", queues, tasks, nil, func() error {
		return g.pollAll(ctx, phase, queues, tasks, func(int) {})
	})
	return spool, drain, err
}

// Footprint is what loaded queues and waiting polls cost in memory, in bytes each.
type Footprint struct {
	Engine      string `json:"engine"`
	IdleBytes   int64  `json:"idle_bytes"`
	QueueBytes  int64  `json:"bytes_per_loaded_queue"`
	PollBytes   int64  `json:"bytes_per_waiting_poll"`
	Queues      int    `json:"queues"`
	WaitingPoll int    `json:"waiting_polls"`
}

// Memory loads queues nobody uses and lets polls wait on a few of them.
func (g *Generator) Memory(ctx context.Context, queues, polls int) (Footprint, error) {
	f := Footprint{Engine: g.Engine.Name, Queues: queues, WaitingPoll: polls}
	var err error
	if f.IdleBytes, err = Memory(g.Engine.Pid); err != nil {
		return f, err
	}
	if err := g.warmUp(ctx, "memory", queues); err != nil {
		return f, err
	}
	loaded, err := Memory(g.Engine.Pid)
	if err != nil {
		return f, err
	}
	f.QueueBytes = (loaded - f.IdleBytes) / int64(queues)

	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- together(polls, func(i int) error {
			_, err := g.poll(waiting, g.client(i), g.queue("memory", i%16), 5*time.Minute)
			return err
		})
	}()
	select {
	case err := <-ended:
		return f, fmt.Errorf("the polls did not wait: %w", err)
	case <-time.After(10 * time.Second):
	}
	full, err := Memory(g.Engine.Pid)
	if err != nil {
		return f, err
	}
	f.PollBytes = (full - loaded) / int64(polls)
	stop()
	return f, <-ended
}

// warmUp loads the queues: one short poll each.
func (g *Generator) warmUp(ctx context.Context, phase string, queues int) error {
	const atOnce = 50
	return together(atOnce, func(i int) error {
		for queue := i; queue < queues; queue += atOnce {
			if _, err := g.poll(ctx, g.client(i), g.queue(phase, queue), 1500*time.Millisecond); err != nil {
				return fmt.Errorf("load a queue: %w", err)
			}
		}
		return nil
	})
}
