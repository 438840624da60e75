#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/health.h"
#include "millrace/cli/output.h"
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

void AddServerCommand(Command& root, Context& context) {
  auto sources = std::make_shared<server::ConfigSources>();
  Command command = root.Subcommand(
      "server",
      "run a server, until TERM or INT\n"
      "Settings come from flags, then MILLRACE_* variables, then the file named by --config, then\n"
      "defaults; `millrace config show` tells which one counted. --dev needs no setting at all.");
  AddServerSettings(command, *sources);
  command.Examples(
      "  millrace server --dev\n"
      "  millrace server --data-dir /var/lib/millrace\n"
      "  millrace server --config /etc/millrace.yaml --log-format json\n"
      "  millrace server check --address 127.0.0.1:7630");
  command.Subcommand("start", "the same as `millrace server`");
  command.Subcommand("check", "ask a running server for its health; exit code 0 or 4")
      .Runs(context, [&context] { return Check(context); });
  command.Runs(context, [&context, sources] {
    sources->environment = context.environment;
    return static_cast<ExitCode>(server::RunServer(*sources, server::StandaloneParts()));
  });
}

}  // namespace millrace::cli
