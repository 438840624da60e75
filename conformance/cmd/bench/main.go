// Command bench puts the same load on the server module's own matching service and on Millrace, each in a process of its
// own, and prints what they took. History is a double in this process, so that matching alone is measured.
//
//	bench --tasks 20000 --millrace PATH --millrace-arguments "server ... {address} {history} {postgres}"
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"millrace.dev/conformance/bench"
	"millrace.dev/conformance/cluster"
)

type options struct {
	engines, millrace, arguments string
	tasks, adders, pollers       int
	memoryQueues, waitingPolls   int
	durable                      bool
	jsonFile                     string
}

func main() {
	var o options
	flag.StringVar(&o.engines, "engines", "own,millrace", "which to measure, in this order")
	flag.StringVar(&o.millrace, "millrace", "", "the millrace binary")
	flag.StringVar(&o.arguments, "millrace-arguments", "", "its arguments; {address}, {history}, {postgres}, {folder} are filled in")
	flag.IntVar(&o.tasks, "tasks", 20000, "tasks in each phase")
	flag.IntVar(&o.adders, "adders", 32, "calls that add at the same time")
	flag.IntVar(&o.pollers, "pollers", 64, "calls that poll at the same time")
	flag.IntVar(&o.memoryQueues, "memory-queues", 2000, "queues loaded to weigh one")
	flag.IntVar(&o.waitingPolls, "waiting-polls", 2000, "polls that wait to weigh one")
	flag.BoolVar(&o.durable, "durable", true, "the database syncs its writes to the disk")
	flag.StringVar(&o.jsonFile, "json", "", "write all figures there")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	out := os.Stdout
	os.Stdout = os.Stderr // The module's tools print; standard output has the figures only.
	all, err := run(ctx, o)
	if err == nil {
		all.print(out)
		if o.jsonFile != "" {
			var text []byte
			if text, err = json.MarshalIndent(all, "", " "); err == nil {
				err = os.WriteFile(o.jsonFile, append(text, '\n'), 0o644)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// figures is all that was measured.
type figures struct {
	Phases     []bench.Figures   `json:"phases"`
	Footprints []bench.Footprint `json:"footprints"`
}

func run(ctx context.Context, o options) (*figures, error) {
	folder, err := os.MkdirTemp("", "millrace_bench_")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil {
		return nil, err
	}
	postgres, err := cluster.StartPostgres(ctx, filepath.Join(folder, "postgres"), o.durable)
	if err != nil {
		return nil, err
	}
	defer postgres.Stop()
	database := postgres.Database("temporal")
	if err := database.CreateTables(); err != nil {
		return nil, err
	}
	ports := rig{folder: folder, database: database}
	for _, address := range []*string{&ports.history, &ports.frontend} {
		port, err := cluster.FreePort()
		if err != nil {
			return nil, err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	history, err := bench.StartHistory(ports.history)
	if err != nil {
		return nil, err
	}
	defer history.Stop()
	namespaceID, err := ports.namespace(ctx)
	if err != nil {
		return nil, err
	}

	all := &figures{}
	for _, name := range strings.Split(o.engines, ",") {
		if err := measure(ctx, o, ports, name, namespaceID, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func measure(ctx context.Context, o options, r rig, name, namespaceID string, all *figures) error {
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	var process *exec.Cmd
	switch name {
	case "own":
		process, err = r.start(ctx, "own", sibling("cluster"), "--services", "matching", "--matching", address, "--history", r.history,
			"--frontend", r.frontend, "--postgres", r.database.URL(), "--folder", filepath.Join(r.folder, "own"))
	case "millrace":
		fill := strings.NewReplacer("{address}", address, "{history}", r.history, "{postgres}", r.database.URL(), "{folder}", r.folder)
		if strings.Contains(o.arguments, "{postgres}") {
			migrate := exec.CommandContext(ctx, o.millrace, "store", "migrate", "--postgres-url", r.database.URL())
			if out, err := migrate.CombinedOutput(); err != nil {
				return fmt.Errorf("store migrate: %w: %s", err, out)
			}
		}
		process, err = r.start(ctx, "millrace", o.millrace, strings.Fields(fill.Replace(o.arguments))...)
	default:
		err = fmt.Errorf("there is no engine %q", name)
	}
	if err != nil {
		return err
	}
	defer stop(process)
	if err := bench.AwaitHealthy(ctx, address); err != nil {
		return fmt.Errorf("%s: %w, see %s", name, err, r.folder)
	}

	g := &bench.Generator{Engine: bench.Engine{Name: name, Address: address, Pid: process.Process.Pid},
		NamespaceID: namespaceID, Adders: o.adders, Pollers: o.pollers}
	if err := g.Connect(); err != nil {
		return err
	}
	defer g.Close()
	// First, before the heap of the others is there.
	footprint, err := g.Memory(ctx, o.memoryQueues, o.waitingPolls)
	if err != nil {
		return err
	}
	all.Footprints = append(all.Footprints, footprint)
	for _, queues := range []int{1, 16} {
		sync, err := g.Sync(ctx, queues, o.tasks)
		if err != nil {
			return err
		}
		spool, drain, err := g.SpoolAndDrain(ctx, queues, o.tasks)
		if err != nil {
			return err
		}
		all.Phases = append(all.Phases, sync, spool, drain)
		for _, f := range []bench.Figures{sync, spool, drain} {
			fmt.Fprintf(os.Stderr, "%+v\n", f)
		}
	}
	return nil
}

// rig is where the parts of the benchmark are.
type rig struct {
	folder, history, frontend string
	database                  cluster.Database
}

// namespace registers one through a frontend that runs for that only.
func (r rig) namespace(ctx context.Context) (string, error) {
	ready := filepath.Join(r.folder, "ready")
	process, err := r.start(ctx, "frontend", sibling("cluster"), "--services", "frontend", "--matching", r.history, "--history", r.history,
		"--frontend", r.frontend, "--postgres", r.database.URL(), "--ready-file", ready, "--folder", filepath.Join(r.folder, "frontend"))
	if err != nil {
		return "", err
	}
	defer stop(process)
	id, err := cluster.RegisterNamespace(ctx, r.frontend, "bench")
	return id, err
}

func (r rig) start(ctx context.Context, name, program string, arguments ...string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(r.folder, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	process := exec.CommandContext(ctx, program, arguments...)
	process.Stdout, process.Stderr = log, log
	process.WaitDelay = 10 * time.Second
	return process, process.Start()
}

func stop(process *exec.Cmd) {
	process.Process.Signal(syscall.SIGTERM)
	process.Wait()
}

// sibling is the program that was built beside this one.
func sibling(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
