#pragma once

#include <string>
#include <vector>

#include "millrace/server/config_load.h"

namespace millrace::server {

// Every setting with its help, type and default, as a YAML file with all values commented out.
std::string DefaultsYaml();

struct ShownSetting {
  std::string name;
  std::string value;
  std::string origin;  // "default" or what LoadedConfig::origins says.
};

// The effective value of every setting, in table order.
std::vector<ShownSetting> ShowSettings(const LoadedConfig& loaded);

}  // namespace millrace::server
