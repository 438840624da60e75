#include "millrace/server/run_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "millrace/server/cpu_count.h"
#include "millrace/server/log_line.h"
#include "millrace/server/server.h"
#include "millrace/server/service_manager.h"
#include "millrace/server/signals.h"
#include "millrace/server/version.h"

namespace millrace::server {
namespace {

// How much longer than the grace a stop may take before the process gives up on it.
constexpr Duration kStopMargin = std::chrono::seconds(30);

void Say(const std::string& text) {
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool Loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("[::1]") ||
         address.starts_with("unix:");
}

void SayServing(const Server& server, StderrLog& log) {
  const std::string& grpc = server.grpc_addresses()[0];
  const std::string admin = server.admin_address();
  log.Write(LogLevel::kInfo, "server", "serving",
            {{"grpc", std::string_view(grpc)},
             {"admin", std::string_view(admin)},
             {"data_dir", std::string_view(server.data_dir())},
             {"version", Version()},
             {"pid", std::int64_t{getpid()}}});
  for (const std::string& address : server.grpc_addresses()) {
    const TlsSettings& tls = server.config().rpc.tls;
    const bool authenticated =
        !tls.client_ca_file.empty() && tls.client_auth == ClientAuth::kRequired;
    if (Loopback(address) || authenticated) continue;
    log.Write(LogLevel::kWarn, "server",
              tls.cert_file.empty()
                  ? "reachable from other machines without encryption or authentication"
                  : "reachable from other machines without authentication",
              {{"grpc", std::string_view(address)}});
  }
}

// For a person in front of a terminal.
void SayWelcome(const Server& server) {
  std::string text = "\nMillrace " + std::string(Version()) + " is ready.\n";
  text += "  gRPC     " + server.grpc_addresses()[0] + "\n";
  if (!server.admin_address().empty()) {
    text += "  admin    http://" + server.admin_address() + "/\n";
    text += "  metrics  http://" + server.admin_address() + "/metrics\n";
  }
  if (server.config().store.kind == StoreKind::kMemory) {
    text += "  data     in memory, gone at exit\n";
  } else if (server.config().store.kind == StoreKind::kPostgres) {
    text += "  data     in PostgreSQL\n";
  } else {
    text += "  data     " + server.data_dir() +
            (server.config().data_dir.empty() ? ", removed at exit\n" : "\n");
  }
  Say(text + "Ctrl-C stops it.\n\n");
}

void Reload(const ConfigSources& sources, StderrLog& log) {
  const auto loaded = LoadConfig(sources);
  if (!loaded.ok()) {
    const std::string why(loaded.status().message());
    log.Write(LogLevel::kError, "server", "settings not reloaded",
              {{"error", std::string_view(why)}});
    return;
  }
  log.SetLevel(loaded->config.log.level);
  log.Write(LogLevel::kInfo, "server", "settings reloaded",
            {{"log_level", LogLevelName(loaded->config.log.level)}});
}

// Returns when the server is to stop.
void WaitForEnd(Signals& signals, const ConfigSources& sources, const Clock& clock,
                const ServiceManager& manager, Server& server, StderrLog& log) {
  for (;;) {
    const int signal = signals.Wait();
    if (signal == SIGHUP) {
      manager.Reloading(clock.Now().ns / 1'000);
      Reload(sources, log);
      server.ReloadTls();
      manager.Ready("serving");
      continue;
    }
    log.Write(LogLevel::kInfo, "server", "stopping; the same signal again ends it at once",
              {{"signal", std::string_view(signal == SIGTERM ? "SIGTERM" : "SIGINT")}});
    return;
  }
}

}  // namespace

int RunServer(const ConfigSources& sources, ServerParts parts) {
  const auto loaded = LoadConfig(sources);
  if (!loaded.ok()) {
    Say(std::string(loaded.status().message()) + "\n");
    return 2;
  }
  const ServerConfig& config = loaded->config;
  Signals signals;
  RaiseFileLimit();
  SystemClock clock;
  StderrLog log(clock, config.log.level, config.log.format);
  for (const std::string& warning : loaded->warnings)
    log.Write(LogLevel::kWarn, "config", warning, {});
  const ServiceManager manager = ServiceManager::FromEnvironment();

  Server server(config, std::move(parts), log);
  const Status started = server.Start();
  if (!started.ok()) {
    const std::string why(started.message());
    log.Write(LogLevel::kError, "server", "cannot start: " + why,
              {{"code", StatusCodeName(started.code())}});
    return started.code() == StatusCode::kInvalidArgument ? 2 : 1;
  }
  SayServing(server, log);
  if (config.dev) SayWelcome(server);
  manager.Ready("serving on " + server.grpc_addresses()[0]);

  WaitForEnd(signals, sources, clock, manager, server, log);
  manager.Stopping();
  signals.ExitAtNext(config.shutdown_grace + kStopMargin);
  server.Stop();
  log.Write(LogLevel::kInfo, "server", "stopped", {});
  return 0;
}

}  // namespace millrace::server
