#include "millrace/server/config_print.h"

#include "millrace/server/setting.h"

namespace millrace::server {
namespace {

// A string that YAML might read as something else is quoted.
std::string YamlText(const Setting& setting, const std::string& value) {
  return setting.type == SettingType::kString ? "\"" + value + "\"" : value;
}

std::string Describe(const Setting& setting, const std::string& indent) {
  std::string out = indent + "# " + std::string(setting.help) + "\n";
  out += indent + "# type " + setting.TypeName() + ", flag --" + setting.FlagName() + ", env " +
         setting.EnvName() + "\n";
  return out;
}

}  // namespace

std::string DefaultsYaml() {
  std::string out =
      "# Settings of millrace server with their defaults. Take away the # of what you change.\n";
  std::string section;
  for (const Setting& setting : ServerSettings()) {
    const std::size_t dot = setting.name.find('.');
    const std::string own_section(dot == std::string_view::npos ? "" : setting.name.substr(0, dot));
    const std::string_view key = setting.name.substr(dot == std::string_view::npos ? 0 : dot + 1);
    const std::string indent = own_section.empty() ? "" : "  ";
    if (own_section != section) out += "\n" + own_section + ":\n";
    if (own_section.empty()) out += "\n";
    section = own_section;
    out += Describe(setting, indent) + indent + "#" + std::string(key) + ": " +
           YamlText(setting, setting.DefaultText()) + "\n";
  }
  return out;
}

std::vector<ShownSetting> ShowSettings(const LoadedConfig& loaded) {
  std::vector<ShownSetting> shown;
  for (const Setting& setting : ServerSettings()) {
    const auto origin = loaded.origins.find(setting.name);
    shown.push_back({std::string(setting.name), SettingText(setting, loaded.config),
                     origin == loaded.origins.end() ? "default" : origin->second});
  }
  return shown;
}

}  // namespace millrace::server
