#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/health.h"
#include "millrace/cli/options.h"
#include "millrace/cli/server_sources.h"
#include "millrace/server/run_server.h"

namespace millrace::cli {
namespace {

ExitCode Check(Context& context) {
  ClientSession session(context);
  const Health health = AskHealth(session, context.timeout);
  Json json = {{"address", context.address}, {"status", health.word}};
  PrintObject(context.out, context.output, json);
  if (health.error) {
    PrintCallError(context.err, "health check", *health.error, context.address);
    return kExitUnavailable;
  }
  if (health.serving) return kExitOk;
  return context.Fail(
      kExitUnavailable, "the server at " + context.address + " is not serving",
      "it is starting, stopping, or its store refuses writes; its log and /readyz tell which");
}

}  // namespace

void AddServerCommand(CLI::App& root, Context& context) {
  auto sources = std::make_shared<server::ConfigSources>();
  CLI::App* command = root.add_subcommand(
      "server",
      "run a server, until TERM or INT\n"
      "Settings come from flags, then MILLRACE_* variables, then the file named by --config, then\n"
      "defaults; `millrace config show` tells which one counted. --dev needs no setting at all.");
  AddServerSettings(command, *sources);
  AddExamples(command,
              "  millrace server --dev\n"
              "  millrace server --data-dir /var/lib/millrace\n"
              "  millrace server --config /etc/millrace.yaml --log-format json\n"
              "  millrace server check --address 127.0.0.1:7630");
  command->require_subcommand(0, 1);
  CLI::App* start = command->add_subcommand("start", "the same as `millrace server`");
  CLI::App* check =
      command->add_subcommand("check", "ask a running server for its health; exit code 0 or 4");
  check->callback([&context] { context.action = [&context] { return Check(context); }; });
  command->callback([&context, sources, check] {
    if (check->parsed()) return;
    context.action = [&context, sources] {
      sources->environment = context.environment;
      return static_cast<ExitCode>(server::RunServer(*sources, server::StandaloneParts()));
    };
  });
  static_cast<void>(start);
}

}  // namespace millrace::cli
