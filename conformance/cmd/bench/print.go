package main

import (
	"fmt"
	"io"
)

// print writes the figures as two tables; ratios compare the last engine with the first.
func (f *figures) print(out io.Writer) {
	fmt.Fprintln(out, "| phase | queues | engine | tasks/s | CPU µs a task | p50 ms | p99 ms | resident MiB |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, p := range f.Phases {
		fmt.Fprintf(out, "| %s | %d | %s | %.0f | %.1f | %.2f | %.2f | %.0f |\n", p.Phase, p.Queues, p.Engine, p.TasksPerSec, p.CPUMicros,
			p.LatencyP50, p.LatencyP99, float64(p.ResidentBytes)/(1<<20))
	}
	fmt.Fprintln(out, "\n| engine | idle MiB | KiB a loaded queue | KiB a waiting poll |")
	fmt.Fprintln(out, "|---|---|---|---|")
	for _, m := range f.Footprints {
		fmt.Fprintf(out, "| %s | %.0f | %.1f | %.1f |\n", m.Engine, float64(m.IdleBytes)/(1<<20), float64(m.QueueBytes)/1024,
			float64(m.PollBytes)/1024)
	}
	half := len(f.Phases) / 2
	if len(f.Footprints) != 2 || len(f.Phases) != 2*half {
		return
	}
	fmt.Fprintf(out, "\n| phase | queues | CPU: %s / %s | tasks/s: %s / %s |\n|---|---|---|---|\n", f.Footprints[0].Engine,
		f.Footprints[1].Engine, f.Footprints[1].Engine, f.Footprints[0].Engine)
	for i := range half {
		a, b := f.Phases[i], f.Phases[half+i]
		fmt.Fprintf(out, "| %s | %d | %.1f | %.1f |\n", a.Phase, a.Queues, a.CPUMicros/b.CPUMicros, b.TasksPerSec/a.TasksPerSec)
	}
	a, b := f.Footprints[0], f.Footprints[1]
	fmt.Fprintf(out, "| memory of a loaded queue | %d | %.1f | |\n| memory of a waiting poll | %d | %.1f | |\n", a.Queues,
		float64(a.QueueBytes)/float64(max(b.QueueBytes, 1)), a.WaitingPoll, float64(a.PollBytes)/float64(max(b.PollBytes, 1)))
}
