package cluster

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	temporalcluster "go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// Services says which of Temporal's services to run in this process, and where they and the others are.
type Services struct {
	Run           []string          // Of frontend, history, matching, worker.
	Addresses     map[string]string // Service name → host:port; of all four. Several matching hosts: separated by commas.
	Database      Database
	DynamicConfig string // A YAML file.
	LogFile       string
	LogLevel      string
	MetricsPort   int // 0: no metrics.
}

// Server is the services that run in this process.
type Server struct {
	server temporal.Server
}

// Start returns when the services are up.
func (s Services) Start() (*Server, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, address := range s.Addresses {
		own := static.Hosts{All: splitAddresses(address)}
		if slices.Contains(s.Run, name) {
			own.Self = own.All[0]
		}
		hosts[primitives.ServiceName(name)] = own
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{OutputFile: s.LogFile, Level: s.LogLevel}))
	server, err := temporal.NewServer(temporal.WithConfig(cfg), temporal.ForServices(s.Run), temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger))
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	return &Server{server}, nil
}

// Stop ends the services and waits for them.
func (s *Server) Stop() error {
	return s.server.Stop()
}

func (s Services) config() (*config.Config, error) {
	services := map[string]config.Service{}
	for name, address := range s.Addresses {
		_, text, err := net.SplitHostPort(splitAddresses(address)[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		services[name] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnLocalHost: true}}
	}
	frontend := s.Addresses["frontend"]
	off := config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
		History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
		Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
	}}
	cfg := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     "main",
			VisibilityStore:  "visibility",
			NumHistoryShards: HistoryShards,
			DataStores: map[string]config.DataStore{
				"main":       {SQL: s.Database.sql(s.Database.Name, 20)},
				"visibility": {SQL: s.Database.sql(s.Database.Name+visibility, 5)},
			},
		},
		ClusterMetadata: &temporalcluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        "active",
			CurrentClusterName:       "active",
			ClusterInformation: map[string]temporalcluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults:   off,
		PublicClient:        config.PublicClient{HostPort: frontend},
		DynamicConfigClient: &dynamicconfig.FileBasedClientConfig{Filepath: s.DynamicConfig, PollInterval: 5 * time.Second},
	}
	cfg.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"}
	return cfg, cfg.Validate()
}
