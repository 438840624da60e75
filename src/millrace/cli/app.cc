#include "millrace/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "millrace/cli/completion_command.h"
#include "millrace/server/value_text.h"

namespace millrace::cli {
namespace {

constexpr char kFooter[] =
    "First steps:\n"
    "  millrace server --dev                         a server that keeps nothing\n"
    "  millrace task enqueue mail 'hello' 'world'    two tasks for the queue \"mail\"\n"
    "  millrace work mail --exec 'cat' --until-empty run a command for each\n"
    "  millrace queue list                           look\n"
    "\n"
    "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 server unavailable.\n"
    "`millrace COMMAND --help` tells more about each command.";

std::string FromEnvironment(const Context& context, std::string_view name) {
  for (const std::string& entry : context.environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

void AddGlobalOptions(Command& root, Context& context) {
  static const std::map<std::string, OutputFormat> kFormats = {{"table", OutputFormat::kTable},
                                                               {"json", OutputFormat::kJson},
                                                               {"jsonl", OutputFormat::kJsonl}};
  root.TextTo(
          "-o,--output",
          [&context](const std::string& name) { context.output = kFormats.at(name); }, "FORMAT",
          "table", "table for people, json, or jsonl (one object a line)")
      .OneOf({"table", "json", "jsonl"});
  root.Text("--address", context.address, "ADDRESS",
            "server: host:port or unix:/path; also MILLRACE_ADDRESS");
  root.Time("--timeout", context.timeout, "longest wait for one answer");
  constexpr char kGroup[] = "TLS";
  root.Flag("--tls", context.tls_given,
            "speak TLS, which the other --tls options mean as well; also MILLRACE_TLS=true")
      .Group(kGroup);
  root.Text("--tls-ca-file", context.tls.ca_file, "FILE",
            "PEM file with the CA of the server's certificate, instead of the system's roots; also "
            "MILLRACE_TLS_CA_FILE, and so on")
      .Group(kGroup);
  root.Text("--tls-cert-file", context.tls.cert_file, "FILE", "PEM file with our own certificate")
      .Group(kGroup);
  root.Text("--tls-key-file", context.tls.key_file, "FILE", "PEM file with its key").Group(kGroup);
  root.Text("--tls-server-name", context.tls.server_name, "NAME",
            "whom the server's certificate must be for, instead of the address's host")
      .Group(kGroup);
}

// Options of the root may stand after any subcommand.
void LetOptionsFallThrough(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    LetOptionsFallThrough(*command);
  }
}

// The innermost subcommand that was reached, for messages.
const CLI::App& Innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : Innermost(*parsed.front());
}

std::string FullName(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : FullName(*parent) + " " + app.get_name();
}

}  // namespace

int RunCli(std::vector<std::string> args, Context& context) {
  CLI::App app("Millrace: durable task queues", "millrace");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_help_flag("-h,--help", "print this help and exit");
  if (std::string address = FromEnvironment(context, "MILLRACE_ADDRESS"); !address.empty()) {
    context.address = std::move(address);
    context.address_given = true;
  }
  if (const std::string word = FromEnvironment(context, "MILLRACE_TLS"); !word.empty()) {
    const Result<bool> on = server::ParseBool(word);
    if (!on.ok()) {
      return context.Fail(kExitUsage, "MILLRACE_TLS: " + std::string(on.status().message()));
    }
    context.tls_given = *on;
  }
  context.tls.ca_file = FromEnvironment(context, "MILLRACE_TLS_CA_FILE");
  context.tls.cert_file = FromEnvironment(context, "MILLRACE_TLS_CERT_FILE");
  context.tls.key_file = FromEnvironment(context, "MILLRACE_TLS_KEY_FILE");
  context.tls.server_name = FromEnvironment(context, "MILLRACE_TLS_SERVER_NAME");
  Command root(&app);
  AddGlobalOptions(root, context);
  AddServerCommand(root, context);
  AddTaskCommands(root, context);
  AddWorkCommand(root, context);
  AddQueueCommands(root, context);
  AddNodeCommands(root, context);
  AddAuditCommand(root, context);
  AddBenchCommand(root, context);
  AddConfigCommands(root, context);
  AddStoreCommands(root, context);
  AddCompletionCommand(root, app, context);
  AddVersionCommand(root, context);
  LetOptionsFallThrough(app);

  std::reverse(args.begin(), args.end());  // As CLI11 takes them.
  try {
    app.parse(args);
  } catch (const CLI::CallForHelp&) {
    const CLI::App& command = Innermost(app);
    context.out << command.help(command.get_parent() == nullptr ? ""
                                                                : FullName(*command.get_parent()));
    return kExitOk;
  } catch (const CLI::CallForAllHelp&) {
    context.out << app.help("", CLI::AppFormatMode::All);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::string name = FullName(Innermost(app));
    return context.Fail(kExitUsage, error.what(), "`" + name + " --help` shows how it is used");
  }
  if (app.count("--address") > 0) context.address_given = true;
  if (!context.action)
    return context.Fail(kExitUsage, "no command given", "`millrace --help` lists them");
  return context.action();
}

}  // namespace millrace::cli
