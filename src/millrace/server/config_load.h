#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/server/config.h"

namespace millrace::server {

// Where settings may come from, strongest first: flags, environment, file. What none names keeps
// its default.
struct ConfigSources {
  std::vector<std::pair<std::string, std::string>> flags;  // Setting name, text.
  std::vector<std::string> environment;                    // "NAME=text", as the process got it.
  std::string config_file;  // From --config; empty = MILLRACE_CONFIG, if set.
  // Names below MILLRACE_ that mean something to other parts of the program and deserve no warning.
  std::vector<std::string> other_environment;
};

// The process's own environment.
std::vector<std::string> ProcessEnvironment();

struct LoadedConfig {
  ServerConfig config;
  // Setting name to "flag --log-level", "env MILLRACE_LOG_LEVEL" or "FILE:LINE"; absent = default.
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> warnings;
  std::string config_file;  // The file that was read, or empty.
};

// Fails: kInvalidArgument (kNotFound for a missing file) with every problem found, one a line, each
// saying where it stands and what would be right.
Result<LoadedConfig> LoadConfig(const ConfigSources& sources);

// Checks a file by itself, as `config validate` does.
Status ValidateConfigFile(const std::string& path);

// What a single setting cannot see: orders between settings. One problem a line.
Status CheckConsistent(const ServerConfig& config);

}  // namespace millrace::server
