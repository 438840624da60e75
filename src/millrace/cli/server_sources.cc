#include "millrace/cli/server_sources.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "millrace/server/setting.h"

namespace millrace::cli {

void AddServerSettings(CLI::App* command, server::ConfigSources& sources) {
  sources.other_environment = {"MILLRACE_ADDRESS"};
  command
      ->add_option("--config", sources.config_file, "YAML file with settings; also MILLRACE_CONFIG")
      ->type_name("FILE")
      ->group("Settings");
  for (const server::Setting& setting : server::ServerSettings()) {
    const std::string name(setting.name);
    const std::string flag = "--" + setting.FlagName();
    const auto give = [&sources, name](const std::string& text) {
      sources.flags.emplace_back(name, text);
    };
    CLI::Option* option = nullptr;
    if (setting.type == server::SettingType::kBool) {
      option =
          command->add_flag_callback(flag, [give] { give("true"); }, std::string(setting.help));
    } else {
      std::string type = setting.TypeName();
      std::transform(type.begin(), type.end(), type.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      option = command->add_option_function<std::string>(flag, give, std::string(setting.help))
                   ->type_name(setting.choices.empty() ? type : setting.TypeName());
      if (const std::string text = setting.DefaultText(); !text.empty()) option->default_str(text);
    }
    option->group("Settings");
  }
}

}  // namespace millrace::cli
