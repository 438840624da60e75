// Command rows reads and writes the rows of Temporal's task queues with Temporal's own persistence layer, in a PostgreSQL
// database that is reached by a Unix socket.
//
//	rows --socket FOLDER --user NAME --database NAME schema   makes Temporal's tables, by its own schema tool
//	rows --socket FOLDER --user NAME --database NAME talk     answers requests, one JSON object a line (talk.go)
//
// It is the other side of the tests that hand backlogs from one engine to the other.
package main

import (
	"flag"
	"fmt"
	"os"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/client"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql"

	// The SQL plugin under whose name the database is opened.
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/resolver"
	sqltool "go.temporal.io/server/tools/sql"
)

const (
	plugin = "postgres12_pgx"
	// Temporal wants an address; to this plugin the attribute "host" stands above it.
	address, port = "localhost", "5432"
)

type database struct{ socket, user, name string }

func main() {
	var d database
	flag.StringVar(&d.socket, "socket", "", "folder of the server's socket")
	flag.StringVar(&d.user, "user", "", "database user")
	flag.StringVar(&d.name, "database", "", "database")
	flag.Parse()
	var err error
	switch command := flag.Arg(0); command {
	case "schema":
		err = d.makeTables()
	case "talk":
		err = d.talk()
	default:
		err = fmt.Errorf("%q is neither schema nor talk", command)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

// makeTables fills an empty database.
func (d database) makeTables() error {
	run := func(arguments ...string) error {
		return sqltool.RunTool(append([]string{"temporal-sql-tool", "--plugin", plugin, "--endpoint", address, "--port", port,
			"--connect-attributes", "host=" + d.socket, "--user", d.user, "--database", d.name}, arguments...))
	}
	if err := run("setup-schema", "--version", "0.0"); err != nil {
		return err
	}
	return run("update-schema", "--schema-name", "postgresql/v12/temporal")
}

// talk opens the task managers as a Temporal server does and serves requests until the input ends.
func (d database) talk() error {
	logger := log.NewNoopLogger()
	serializer := serialization.NewSerializer()
	settings := config.SQL{PluginName: plugin, DatabaseName: d.name, ConnectAddr: address + ":" + port, ConnectProtocol: "tcp",
		ConnectAttributes: map[string]string{"host": d.socket}, User: d.user, MaxConns: 4, MaxIdleConns: 4, TaskScanPartitions: 1}
	stores := sql.NewFactory(settings, resolver.NewNoopResolver(), "conformance", logger, metrics.NoopMetricsHandler, serializer)
	factory := client.NewFactory(stores, &config.Persistence{}, nil, nil, nil, serializer, nil, "conformance", nil, logger, nil, nil, nil)
	defer factory.Close()
	classic, err := factory.NewTaskManager()
	if err != nil {
		return err
	}
	fair, err := factory.NewFairTaskManager()
	if err != nil {
		return err
	}
	t := talker{managers: map[string]persistence.TaskManager{"classic": classic, "fair": fair}}
	return t.serve(os.Stdin, os.Stdout)
}
