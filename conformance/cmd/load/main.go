// Command load runs ordinary work on a Temporal cluster and checks every result: activities, timers, signals, child
// workflows, local activities, retries, heartbeats, cancellation, continue-as-new, a payload near the limit; with and
// without the workers' sticky cache; with a worker killed in the middle. It exits 1 when anything is stuck or wrong.
//
//	load --cluster READY_FILE --workflows 1000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"millrace.dev/conformance/work"
)

type options struct {
	cluster, frontend, namespace, prefix string
	workflows, concurrency               int
	killWorker                           bool
	phase                                string
	timeoutsMax                          int
	within                               time.Duration
	verbose                              bool

	workerOf    string // This process is a worker of that task queue.
	stickyCache int
}

// result is what became of one workflow.
type result struct {
	id, kind string
	took     time.Duration
	err      error
}

func main() {
	var o options
	flag.StringVar(&o.cluster, "cluster", "", "the ready file of the cluster program")
	flag.StringVar(&o.frontend, "frontend", "", "the frontend's address, instead of --cluster")
	flag.StringVar(&o.namespace, "namespace", "default", "the namespace")
	flag.StringVar(&o.prefix, "prefix", fmt.Sprintf("load-%d", time.Now().UnixNano()), "what workflow ids and task queues begin with")
	flag.IntVar(&o.workflows, "workflows", 1000, "how many workflows")
	flag.IntVar(&o.concurrency, "concurrency", 100, "how many at once")
	flag.BoolVar(&o.killWorker, "kill-worker", true, "kill a worker when a third is done, start another one when half is")
	flag.StringVar(&o.phase, "phase", "all", "start: only start the workflows, with no worker; finish: run those that another start phase of the same --prefix left")
	flag.IntVar(&o.timeoutsMax, "timeouts-max", -1, "tasks that may be given back by a time-out; -1: any number")
	flag.DurationVar(&o.within, "within", 5*time.Minute, "what is not done by then is stuck")
	flag.BoolVar(&o.verbose, "verbose", false, "show the workers' warnings")
	flag.StringVar(&o.workerOf, "worker-of", "", "be a worker of this task queue (used by load itself)")
	flag.IntVar(&o.stickyCache, "sticky-cache", 1000, "workflows in the worker's cache; 0: none")
	flag.Parse()
	if o.cluster != "" {
		text, err := os.ReadFile(o.cluster)
		if err == nil {
			err = json.Unmarshal(text, &struct{ Frontend *string }{&o.frontend})
		}
		fail(err)
	}
	if flag.NArg() > 0 || o.frontend == "" || o.workflows < 1 || o.concurrency < 1 ||
		!slices.Contains([]string{"all", "start", "finish"}, o.phase) {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if o.workerOf != "" {
		fail(runWorker(ctx, o))
		return
	}
	ok, err := run(ctx, o, os.Stdout)
	fail(err)
	if !ok {
		os.Exit(1)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func dial(ctx context.Context, o options) (client.Client, error) {
	level := slog.LevelError + 1
	if o.verbose {
		level = slog.LevelWarn
	}
	logger := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	return client.DialContext(ctx, client.Options{HostPort: o.frontend, Namespace: o.namespace, Logger: logger})
}

func run(ctx context.Context, o options, out io.Writer) (bool, error) {
	c, err := dial(ctx, o)
	if err != nil {
		return false, err
	}
	defer c.Close()
	started := time.Now()

	queues := []string{o.prefix + "-sticky", o.prefix + "-plain"}
	var workers workers
	defer workers.stop()
	if o.phase != "start" {
		for _, w := range []struct{ queue, cache string }{{queues[0], "1000"}, {queues[0], "1000"}, {queues[1], "0"}} {
			if err := workers.start(o, w.queue, w.cache); err != nil {
				return false, err
			}
		}
	}

	limited, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	var done atomic.Int64
	kills := make(chan error, 1)
	finished := make(chan struct{})
	go func() { kills <- workers.killOne(o, queues[0], &done, finished) }()

	results := make([]result, o.workflows)
	numbers := make(chan int)
	var group sync.WaitGroup
	for i := 0; i < min(o.concurrency, o.workflows); i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := range numbers {
				results[n] = one(limited, c, o, queues[n%len(queues)], n)
				// Whoever does something in the middle of the work reads these lines.
				if count := done.Add(1); count*20/int64(o.workflows) != (count-1)*20/int64(o.workflows) {
					fmt.Fprintf(out, "done %d\n", count)
				}
			}
		}()
	}
	for n := 0; n < o.workflows; n++ {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	close(finished)
	if err := <-kills; err != nil {
		return false, err
	}
	ok := report(ctx, c, out, results, time.Since(started))
	if o.phase == "start" {
		return ok, nil
	}
	timeouts, err := countTimeouts(ctx, c, out, results)
	if o.timeoutsMax >= 0 && timeouts > o.timeoutsMax {
		fmt.Fprintf(out, "WRONG %d tasks timed out\n", timeouts)
		ok = false
	}
	return ok, err
}

// one runs the n-th workflow from its start to the check of its result.
func one(ctx context.Context, c client.Client, o options, queue string, n int) result {
	kind := work.KindOf(n)
	r := result{id: fmt.Sprintf("%s-%d-%s", o.prefix, n, kind.Name), kind: kind.Name}
	started := time.Now()
	var run client.WorkflowRun
	var err error
	if o.phase == "finish" {
		run = c.GetWorkflow(ctx, r.id, "")
	} else {
		run, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: r.id, TaskQueue: queue}, kind.Name, kind.Args(n)...)
	}
	if o.phase == "start" {
		r.took, r.err = time.Since(started), err
		return r
	}
	if err == nil && kind.Drive != nil {
		err = kind.Drive(ctx, c, run)
	}
	if err == nil {
		err = kind.Check(ctx, run, n)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	r.took, r.err = time.Since(started), err
	return r
}

// report prints what happened; it answers whether all went well.
func report(ctx context.Context, c client.Client, out io.Writer, results []result, took time.Duration) bool {
	times := map[string][]time.Duration{}
	stuck, wrong := 0, 0
	for _, r := range results {
		if r.err == nil {
			times[r.kind] = append(times[r.kind], r.took)
			continue
		}
		what := "WRONG"
		if errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, context.Canceled) {
			what = "STUCK"
			stuck++
		} else {
			wrong++
		}
		if stuck+wrong <= 20 {
			fmt.Fprintf(out, "%s %s: %v%s\n", what, r.id, r.err, pending(ctx, c, r.id))
		}
	}
	good := 0
	for _, kind := range work.Kinds {
		of := times[kind.Name]
		if len(of) == 0 {
			continue
		}
		slices.Sort(of)
		good += len(of)
		fmt.Fprintf(out, "%-10s %5d ok  median %6.2f s  slowest %6.2f s\n", kind.Name, len(of), of[len(of)/2].Seconds(),
			of[len(of)-1].Seconds())
	}
	fmt.Fprintf(out, "%d workflows in %.1f s: %d ok, %d wrong, %d stuck\n", len(results), took.Seconds(), good, wrong, stuck)
	return stuck+wrong == 0
}

// pending says what a workflow waits for.
func pending(ctx context.Context, c client.Client, id string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return fmt.Sprintf(" (describe: %v)", err)
	}
	text := fmt.Sprintf(" (status %s, history of %d events", d.GetWorkflowExecutionInfo().GetStatus(),
		d.GetWorkflowExecutionInfo().GetHistoryLength())
	if task := d.GetPendingWorkflowTask(); task != nil {
		text += fmt.Sprintf("; workflow task %s attempt %d scheduled %s", task.GetState(), task.GetAttempt(),
			task.GetScheduledTime().AsTime().Format(time.TimeOnly))
	}
	for _, a := range d.GetPendingActivities() {
		text += fmt.Sprintf("; activity %s %s attempt %d scheduled %s %s", a.GetActivityType().GetName(), a.GetState(),
			a.GetAttempt(), a.GetScheduledTime().AsTime().Format(time.TimeOnly), a.GetLastFailure().GetMessage())
	}
	for _, child := range d.GetPendingChildren() {
		text += "; child " + child.GetWorkflowId()
	}
	return text + ")"
}
