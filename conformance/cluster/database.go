package cluster

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	// The SQL plugin under whose name the database is opened.
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/sql"
)

const (
	// DatabaseUser owns the databases of a server started here.
	DatabaseUser = "temporal"
	plugin       = "postgres12"
	visibility   = "_visibility" // The visibility database's name is the main one's with this behind it.
)

// Database says where the services keep their rows.
type Database struct {
	Address, User, Password, Name string
}

// ParseDatabase reads postgres://user:password@host:port/name.
func ParseDatabase(text string) (Database, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return Database{}, err
	}
	d := Database{Address: parsed.Host, User: parsed.User.Username(), Name: strings.TrimPrefix(parsed.Path, "/")}
	d.Password, _ = parsed.User.Password()
	if _, _, err := net.SplitHostPort(d.Address); err != nil || d.User == "" || d.Name == "" {
		return Database{}, fmt.Errorf("%q is not postgres://user@host:port/name", text)
	}
	return d, nil
}

// URL is the form that ParseDatabase and libpq read.
func (d Database) URL() string {
	user := url.User(d.User)
	if d.Password != "" {
		user = url.UserPassword(d.User, d.Password)
	}
	u := url.URL{Scheme: "postgres", User: user, Host: d.Address, Path: "/" + d.Name}
	return u.String()
}

func (d Database) sql(name string, connections int) *config.SQL {
	return &config.SQL{PluginName: plugin, DatabaseName: name, ConnectAddr: d.Address, ConnectProtocol: "tcp",
		User: d.User, Password: d.Password, MaxConns: connections, MaxIdleConns: connections}
}

// CreateTables makes both databases with the tables of the module's own embedded schema. A database that is there
// already is brought up to date.
func (d Database) CreateTables() error {
	host, port, err := net.SplitHostPort(d.Address)
	if err != nil {
		return err
	}
	for name, folder := range map[string]string{d.Name: "temporal", d.Name + visibility: "visibility"} {
		run := func(arguments ...string) error {
			return sql.RunTool(append([]string{"temporal-sql-tool", "--plugin", plugin, "--endpoint", host, "--port", port,
				"--user", d.User, "--password", d.Password, "--database", name}, arguments...))
		}
		if !d.exists(name) {
			if err := run("create-database", "--defaultdb", "postgres"); err != nil {
				return err
			}
			if err := run("setup-schema", "--version", "0.0"); err != nil {
				return err
			}
		}
		if err := run("update-schema", "--schema-name", "postgresql/v12/"+folder); err != nil {
			return err
		}
	}
	return nil
}

// exists says whether the database is there and has its tables.
func (d Database) exists(name string) bool {
	connection, err := sql.NewConnection(d.sql(name, 1), log.NewNoopLogger())
	if err != nil {
		return false
	}
	defer connection.Close()
	_, err = connection.ReadSchemaVersion()
	return err == nil
}
