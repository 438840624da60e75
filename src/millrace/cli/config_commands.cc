#include <memory>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/output.h"
#include "millrace/cli/server_sources.h"
#include "millrace/server/config_load.h"
#include "millrace/server/config_print.h"

namespace millrace::cli {
namespace {

ExitCode Validate(Context& context, const std::string& path) {
  const Status status = server::ValidateConfigFile(path);
  if (!status.ok()) {
    return context.Fail(status.code() == StatusCode::kNotFound ? kExitNotFound : kExitFailed,
                        std::string(status.message()),
                        "`millrace config defaults` prints every setting there is");
  }
  if (context.output == OutputFormat::kTable) {
    context.out << path << " is fine\n";
  } else {
    PrintObject(context.out, context.output, {{"file", path}, {"valid", true}});
  }
  return kExitOk;
}

ExitCode Show(Context& context, server::ConfigSources sources) {
  static const std::vector<Column> kColumns = {
      {"SETTING", [](const Json& row) { return row["name"].get<std::string>(); }},
      {"VALUE", [](const Json& row) { return row["value"].get<std::string>(); }},
      {"FROM", [](const Json& row) { return row["origin"].get<std::string>(); }}};
  sources.environment = context.environment;
  const Result<server::LoadedConfig> loaded = server::LoadConfig(sources);
  if (!loaded.ok()) return context.Fail(kExitUsage, std::string(loaded.status().message()));
  for (const std::string& warning : loaded->warnings) context.err << "warning: " << warning << "\n";
  std::vector<Json> rows;
  for (const server::ShownSetting& setting : server::ShowSettings(*loaded)) {
    rows.push_back({{"name", setting.name}, {"value", setting.value}, {"origin", setting.origin}});
  }
  PrintRows(context.out, context.output, kColumns, rows, "");
  return kExitOk;
}

}  // namespace

void AddConfigCommands(Command& root, Context& context) {
  Command group = root.Subcommand("config", "print, check and explain a server's settings");
  group.NeedsSubcommand();

  Command defaults =
      group.Subcommand("defaults", "every setting with its default, as a YAML file to start from");
  defaults.Examples("  millrace config defaults > millrace.yaml");
  defaults.Runs(context, [&context] {
    context.out << server::DefaultsYaml();
    return kExitOk;
  });

  auto path = std::make_shared<std::string>();
  Command validate =
      group.Subcommand("validate", "check a settings file; every problem is told with its line");
  validate.Text("FILE", *path, "", "YAML file").Required();
  validate.Examples("  millrace config validate millrace.yaml");
  validate.Runs(context, [&context, path] { return Validate(context, *path); });

  auto sources = std::make_shared<server::ConfigSources>();
  Command show = group.Subcommand(
      "show", "the settings a server would run with, and where each value comes from");
  AddServerSettings(show, *sources);
  show.Examples(
      "  millrace config show --config millrace.yaml\n  millrace config show --dev -o json");
  show.Runs(context, [&context, sources] { return Show(context, *sources); });
}

}  // namespace millrace::cli
