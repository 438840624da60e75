// Serves grpc.testing.TestService at the addresses given, prints one line "listening ADDRESS..."
// and runs until its input ends.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/server.h"
#include "tests/interop/orca_reports.h"
#include "tests/interop/test_service.h"

int main(int argc, char** argv) {
  CLI::App app("Interoperability server; ends with its input");
  millrace::rpc::ServerOptions options;
  millrace::rpc::TlsServerOptions tls;
  app.add_option("addresses", options.listen);
  app.add_option("--cert", tls.cert_file, "PEM file; without one, no TLS");
  app.add_option("--key", tls.key_file);
  CLI11_PARSE(app, argc, argv);
  if (!tls.cert_file.empty()) options.tls = tls;

  const millrace::SystemClock clock;
  millrace::NullLog log;
  const auto first = millrace::exec::EventLoop::Create("loop0", clock);
  const auto second = millrace::exec::EventLoop::Create("loop1", clock);
  millrace::interop::OrcaReports reports(*first);
  millrace::interop::TestService service(*first, reports);
  millrace::rpc::ServiceTable services;
  service.AddTo(&services);
  reports.AddTo(&services);
  options.receive_message_bytes_max = 16u << 20;  // A case of Java's sends 10 MiB.
  options.concurrent_streams_max = 100;           // Small enough for a test to reach it.
  if (options.listen.empty()) options.listen.emplace_back("127.0.0.1:0");
  const auto server =
      millrace::rpc::Server::Create({first.get(), second.get()}, std::move(options),
                                    std::move(services), log, millrace::NullMetrics());
  const millrace::Status started = server->Start();
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.ToString().c_str());
    return EXIT_FAILURE;
  }
  server->SetServing(true);
  std::string line = "listening";
  for (const std::string& address : server->addresses()) line += " " + address;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown(std::chrono::seconds(5));
  return EXIT_SUCCESS;
}
