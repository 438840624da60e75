#include <memory>
#include <string>
#include <vector>

#include "millrace/cli/app.h"
#include "millrace/cli/options.h"
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

void AddConfigCommands(CLI::App& root, Context& context) {
  CLI::App* group = root.add_subcommand("config", "print, check and explain a server's settings");
  group->require_subcommand(1);

  CLI::App* defaults = group->add_subcommand(
      "defaults", "every setting with its default, as a YAML file to start from");
  AddExamples(defaults, "  millrace config defaults > millrace.yaml");
  defaults->callback([&context] {
    context.action = [&context] {
      context.out << server::DefaultsYaml();
      return kExitOk;
    };
  });

  auto path = std::make_shared<std::string>();
  CLI::App* validate = group->add_subcommand(
      "validate", "check a settings file; every problem is told with its line");
  validate->add_option("FILE", *path, "YAML file")->required()->type_name("");
  AddExamples(validate, "  millrace config validate millrace.yaml");
  validate->callback(
      [&context, path] { context.action = [&context, path] { return Validate(context, *path); }; });

  auto sources = std::make_shared<server::ConfigSources>();
  CLI::App* show = group->add_subcommand(
      "show", "the settings a server would run with, and where each value comes from");
  AddServerSettings(show, *sources);
  AddExamples(
      show, "  millrace config show --config millrace.yaml\n  millrace config show --dev -o json");
  show->callback([&context, sources] {
    context.action = [&context, sources] { return Show(context, *sources); };
  });
}

}  // namespace millrace::cli
