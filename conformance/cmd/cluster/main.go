// Command cluster runs a real Temporal cluster on this machine: frontend, history and worker of the published server
// module on PostgreSQL, with Millrace or the module's own service as matching. It prints one line of JSON when
// everything answers and stops on SIGTERM or SIGINT. See conformance/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"millrace.dev/conformance/cluster"
)

// Ready is the line that says where everything is.
type Ready struct {
	Frontend    string `json:"frontend"`
	History     string `json:"history"`
	Matching    string `json:"matching"`
	Worker      string `json:"worker"`
	Postgres    string `json:"postgres"`
	Namespace   string `json:"namespace,omitempty"`
	NamespaceID string `json:"namespace_id,omitempty"`
	Shards      int    `json:"history_shards"`
	Folder      string `json:"folder"`
	Pid         int    `json:"pid"`
}

type options struct {
	matching, frontend, history, worker string
	services, folder, postgres          string
	namespace, readyFile, dynamicConfig string
	logLevel                            string
	partitions                          int
	durable                             bool
	startWithin                         time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.matching, "matching", "own", "own: the module's matching service in this process; or the address of another one")
	flag.StringVar(&o.services, "services", "", "services to run here, separated by commas; none: the database only (default frontend,history,worker, and matching if own)")
	flag.StringVar(&o.frontend, "frontend", "", "the frontend's address (default: a free port)")
	flag.StringVar(&o.history, "history", "", "history's address (default: a free port)")
	flag.StringVar(&o.worker, "worker", "", "the worker service's address (default: a free port)")
	flag.StringVar(&o.folder, "folder", "", "keep database, logs and configuration there (default: a temporary folder)")
	flag.StringVar(&o.postgres, "postgres", "", "use this database, postgres://user@host:port/name, instead of starting a server")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace to register")
	flag.StringVar(&o.readyFile, "ready-file", "", "write the line of JSON there too")
	flag.StringVar(&o.dynamicConfig, "dynamic-config", "", "YAML file of dynamic configuration (default: --partitions and guards raised)")
	flag.StringVar(&o.logLevel, "log-level", "warn", "level of the services' log, in the folder")
	flag.IntVar(&o.partitions, "partitions", 1, "partitions of every task queue, unless --dynamic-config is given")
	flag.BoolVar(&o.durable, "durable", false, "sync the database's writes to the disk")
	flag.DurationVar(&o.startWithin, "start-within", 2*time.Minute, "give up when it takes longer to start")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "cluster: unexpected argument", flag.Arg(0))
		os.Exit(2)
	}
	out := os.Stdout
	os.Stdout = os.Stderr // The module's tools print; standard output has our line only.
	if err := run(o, out); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(o options, out io.Writer) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	starting, over := context.WithTimeout(ctx, o.startWithin)
	defer over()

	folder := o.folder
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "millrace_cluster_"); err != nil {
			return err
		}
		defer os.RemoveAll(folder)
	}
	// The database's own user walks through it.
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755)); err != nil {
		return err
	}

	services := cluster.Services{LogFile: filepath.Join(folder, "cluster.log"), LogLevel: o.logLevel, DynamicConfig: o.dynamicConfig}
	if services.DynamicConfig == "" {
		services.DynamicConfig = filepath.Join(folder, "dynamic_config.yaml")
		if err := os.WriteFile(services.DynamicConfig, []byte(cluster.DynamicConfig(o.partitions)), 0o644); err != nil {
			return err
		}
	}
	var err error
	if services.Addresses, services.Run, err = places(o); err != nil {
		return err
	}

	if o.postgres != "" {
		services.Database, err = cluster.ParseDatabase(o.postgres)
	} else {
		var postgres *cluster.Postgres
		if postgres, err = cluster.StartPostgres(starting, filepath.Join(folder, "postgres"), o.durable); err == nil {
			defer postgres.Stop()
			services.Database = postgres.Database("temporal")
		}
	}
	if err != nil {
		return err
	}
	if err := services.Database.CreateTables(); err != nil {
		return err
	}
	if len(services.Run) > 0 {
		server, err := services.Start()
		if err != nil {
			return err
		}
		defer server.Stop()
	}

	ready := Ready{Frontend: services.Addresses["frontend"], History: services.Addresses["history"],
		Matching: services.Addresses["matching"], Worker: services.Addresses["worker"], Postgres: services.Database.URL(),
		Namespace: o.namespace, Shards: cluster.HistoryShards, Folder: folder, Pid: os.Getpid()}
	if slices.Contains(services.Run, "frontend") {
		if ready.NamespaceID, err = cluster.RegisterNamespace(starting, ready.Frontend, o.namespace); err != nil {
			return err
		}
	}
	line, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if o.readyFile != "" {
		// Whoever waits for the file finds it whole.
		if err := os.WriteFile(o.readyFile+".new", line, 0o644); err != nil {
			return err
		}
		if err := os.Rename(o.readyFile+".new", o.readyFile); err != nil {
			return err
		}
	}
	if _, err := out.Write(line); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// places says where each service is and which of them run here.
func places(o options) (map[string]string, []string, error) {
	matching, run := o.matching, []string{"frontend", "history", "worker"}
	if matching == "own" {
		matching, run = "", append(run, "matching")
	}
	switch o.services {
	case "":
	case "none":
		run = nil
	default:
		run = strings.Split(o.services, ",")
	}
	addresses := map[string]string{"frontend": o.frontend, "history": o.history, "matching": matching, "worker": o.worker}
	for name, address := range addresses {
		if address != "" {
			continue
		}
		if len(run) > 0 && !slices.Contains(run, name) && name != "worker" {
			return nil, nil, fmt.Errorf("--%s is needed: it does not run here", name)
		}
		port, err := cluster.FreePort()
		if err != nil {
			return nil, nil, err
		}
		addresses[name] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	for _, name := range run {
		if _, known := addresses[name]; !known {
			return nil, nil, fmt.Errorf("there is no service %q", name)
		}
	}
	return addresses, run, nil
}
