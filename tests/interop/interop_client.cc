// Runs one interoperability case against a server of grpc.testing.TestService: interop_client
// --target HOST:PORT
// --case NAME. Exit code 0 = passed. --list prints the names.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "tests/interop/client_cases.h"

int main(int argc, char** argv) {
  CLI::App app("Interoperability client");
  std::string target;
  std::string name;
  bool list = false;
  millrace::rpc::TlsClientOptions tls;
  app.add_option("--target", target);
  app.add_option("--case", name);
  app.add_flag("--list", list);
  app.add_option("--ca", tls.ca_file, "PEM file; without one, no TLS");
  app.add_option("--server-name", tls.server_name);
  CLI11_PARSE(app, argc, argv);

  millrace::interop::ClientCases cases;
  millrace::interop::AddUnaryCases(&cases);
  millrace::interop::AddStreamCases(&cases);
  if (list) {
    for (const auto& [known, run] : cases) std::printf("%s\n", known.c_str());
    return EXIT_SUCCESS;
  }
  const auto found = cases.find(name);
  if (found == cases.end()) {
    std::fprintf(stderr, "no such case: %s\n", name.c_str());
    return 2;
  }
  const millrace::SystemClock clock;
  const auto loop = millrace::exec::EventLoop::Create("client", clock);
  millrace::rpc::ChannelOptions options;
  options.target = target;
  if (!tls.ca_file.empty()) options.tls = tls;
  const auto channel = millrace::rpc::Channel::Create(*loop, options);
  millrace::interop::ClientContext context{*loop, options, *channel};
  found->second(context);
  return EXIT_SUCCESS;
}
