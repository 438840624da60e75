package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/sdk/worker"

	"millrace.dev/conformance/work"
)

// workers are processes of this same program, so that one can be killed.
type workers struct {
	running []*exec.Cmd
}

func (w *workers) start(o options, queue, cache string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(self, "--frontend", o.frontend, "--namespace", o.namespace, "--worker-of", queue,
		"--sticky-cache", cache, "--verbose="+strconv.FormatBool(o.verbose))
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	w.running = append(w.running, command)
	return nil
}

// killOne kills the first worker when a third of the work is done and starts another one when half of it is.
func (w *workers) killOne(o options, queue string, done *atomic.Int64, finished <-chan struct{}) error {
	if !o.killWorker || o.phase == "start" {
		return nil
	}
	reached := func(count int) bool {
		for done.Load() < int64(count) {
			select {
			case <-finished:
				return false
			case <-time.After(20 * time.Millisecond):
			}
		}
		return true
	}
	if !reached(o.workflows / 3) {
		return nil
	}
	first := w.running[0]
	w.running = w.running[1:]
	if err := first.Process.Kill(); err != nil {
		return fmt.Errorf("kill a worker: %w", err)
	}
	first.Wait()
	if !reached(o.workflows / 2) {
		return nil
	}
	return w.start(o, queue, "1000")
}

func (w *workers) stop() {
	for _, command := range w.running {
		command.Process.Signal(syscall.SIGTERM)
	}
	for _, command := range w.running {
		command.Wait()
	}
}

// runWorker works on one task queue until the context ends.
func runWorker(ctx context.Context, o options) error {
	worker.SetStickyWorkflowCacheSize(o.stickyCache)
	c, err := dial(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, o.workerOf, worker.Options{WorkerStopTimeout: time.Second})
	work.Register(w)
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}
