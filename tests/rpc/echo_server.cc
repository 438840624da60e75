// Serves EchoService at the addresses given, prints one line "listening ADDRESS..." and runs until
// its input ends.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/server.h"
#include "tests/rpc/echo_service.h"

int main(int argc, char** argv) {
  const millrace::SystemClock clock;
  millrace::NullLog log;
  const auto first = millrace::exec::EventLoop::Create("loop0", clock);
  const auto second = millrace::exec::EventLoop::Create("loop1", clock);
  millrace::rpc::EchoService echo;
  millrace::rpc::ServiceTable services;
  echo.AddTo(&services);
  millrace::rpc::ServerOptions options;
  options.listen.assign(argv + 1, argv + argc);
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
  int c;
  while ((c = std::getchar()) != EOF) {
    if (c == 'n') server->SetServing(false);
    if (c == 's') server->SetServing(true);
  }
  server->Shutdown(std::chrono::seconds(5));
  return EXIT_SUCCESS;
}
