#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/server/config_load.h"

int main(int argc, char** argv) {
  // A reader that goes away (`| head`) is a failed write here, and no reason to leave work half
  // done.
  std::signal(SIGPIPE, SIG_IGN);
  // What protobuf finds wrong with a peer's bytes comes back as a failed parse; its own lines would
  // go past our log, as many as a client cares to cause.
  google::protobuf::SetLogHandler(nullptr);
  std::ios::sync_with_stdio(false);
  millrace::cli::Context context{.in = std::cin, .out = std::cout, .err = std::cerr};
  context.err_is_terminal = isatty(STDERR_FILENO) == 1;
  context.environment = millrace::server::ProcessEnvironment();
  for (const std::string& entry : context.environment) {
    if (entry.starts_with("NO_COLOR=") || entry == "TERM=dumb") context.err_is_terminal = false;
  }
  std::vector<std::string> args(argv + 1, argv + argc);
  const int exit_code = millrace::cli::RunCli(std::move(args), context);
  std::cout.flush();
  if (!std::cout && exit_code == millrace::cli::kExitOk) return millrace::cli::kExitFailed;
  return exit_code;
}
