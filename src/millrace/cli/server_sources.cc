#include "millrace/cli/server_sources.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "millrace/server/setting.h"

namespace millrace::cli {

void AddServerSettings(Command& command, server::ConfigSources& sources) {
  constexpr char kGroup[] = "Settings";
  sources.other_environment = {"MILLRACE_ADDRESS",      "MILLRACE_TLS",
                               "MILLRACE_TLS_CA_FILE",  "MILLRACE_TLS_CERT_FILE",
                               "MILLRACE_TLS_KEY_FILE", "MILLRACE_TLS_SERVER_NAME"};
  command
      .Text("--config", sources.config_file, "FILE",
            "YAML file with settings; also MILLRACE_CONFIG")
      .Group(kGroup);
  for (const server::Setting& setting : server::ServerSettings()) {
    const std::string flag = "--" + setting.FlagName();
    const std::string help(setting.help);
    const auto give = [&sources, name = std::string(setting.name)](const std::string& text) {
      sources.flags.emplace_back(name, text);
    };
    if (setting.type == server::SettingType::kBool) {
      command.FlagTo(flag, [give] { give("true"); }, help).Group(kGroup);
      continue;
    }
    std::string type = setting.TypeName();
    if (setting.choices.empty()) {
      std::transform(type.begin(), type.end(), type.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    }
    command.TextTo(flag, give, type, setting.DefaultText(), help).Group(kGroup);
  }
}

}  // namespace millrace::cli
