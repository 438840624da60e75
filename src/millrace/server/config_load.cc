#include "millrace/server/config_load.h"

#include <unistd.h>

#include <algorithm>

#include "millrace/server/config_file.h"
#include "millrace/server/setting.h"
#include "millrace/server/suggest.h"
#include "millrace/server/temporal_part.h"

namespace millrace::server {
namespace {

constexpr std::string_view kEnvPrefix = "MILLRACE_";
constexpr std::string_view kConfigEnv = "MILLRACE_CONFIG";

std::string Nearest(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return NearestName(word, views);
}

std::string DidYouMean(const std::string& nearest) {
  return nearest.empty() ? std::string() : " (did you mean " + nearest + "?)";
}

std::vector<std::string> NamesOfSettings() {
  std::vector<std::string> names;
  for (const Setting& setting : ServerSettings()) names.emplace_back(setting.name);
  return names;
}

std::vector<std::string> NamesOfVariables() {
  std::vector<std::string> names{std::string(kConfigEnv)};
  for (const Setting& setting : ServerSettings()) names.push_back(setting.EnvName());
  return names;
}

// Applies the layers weakest first and collects problems instead of stopping at the first.
class Loader {
 public:
  explicit Loader(const ConfigSources& sources) : sources_(sources) {}

  Result<LoadedConfig> Run() {
    StateFolder();
    File();
    Environment();
    Flags();
    if (problems_.empty()) {
      const Status consistent = CheckConsistent(loaded_.config);
      if (!consistent.ok()) problems_ = consistent.message();
    }
    if (!problems_.empty()) return Status(code_, problems_);
    return std::move(loaded_);
  }

 private:
  void Problem(const std::string& message) {
    problems_ += (problems_.empty() ? "" : "\n") + message;
  }

  void Apply(const Setting& setting, const std::string& text, const std::string& origin) {
    const Result<SettingValue> value = ParseSetting(setting, text);
    if (!value.ok()) {
      Problem(origin + ": " + std::string(setting.name) + ": " +
              std::string(value.status().message()));
      return;
    }
    setting.write(loaded_.config, *value);
    loaded_.origins[std::string(setting.name)] = origin;
  }

  // The text of an environment variable; empty when it is not set.
  std::string Variable(std::string_view name) const {
    const std::string prefix = std::string(name) + "=";
    for (const std::string& variable : sources_.environment) {
      if (variable.starts_with(prefix)) return variable.substr(prefix.size());
    }
    return {};
  }

  std::string ConfigPath() const {
    return sources_.config_file.empty() ? Variable(kConfigEnv) : sources_.config_file;
  }

  // A service manager that gave us a state folder (the first of a list) decides where data go,
  // unless anybody else does.
  void StateFolder() {
    const std::string folders = Variable("STATE_DIRECTORY");
    if (!folders.empty()) {
      Apply(*FindSetting("data_dir"), folders.substr(0, folders.find(':')), "env STATE_DIRECTORY");
    }
  }

  void File() {
    loaded_.config_file = ConfigPath();
    if (loaded_.config_file.empty()) return;
    const auto entries = ReadConfigFile(loaded_.config_file);
    if (!entries.ok()) {
      code_ = entries.code();
      Problem(std::string(entries.status().message()));
      return;
    }
    for (const FileEntry& entry : *entries) {
      const std::string origin = loaded_.config_file + ":" + std::to_string(entry.line);
      const Setting* setting = FindSetting(entry.name);
      if (setting == nullptr) {
        Problem(origin + ": unknown setting \"" + entry.name + "\"" +
                DidYouMean(Nearest(entry.name, NamesOfSettings())));
      } else {
        Apply(*setting, entry.text, origin);
      }
    }
  }

  void Environment() {
    std::vector<std::string> ours;
    for (const std::string& variable : sources_.environment) {
      if (variable.starts_with(kEnvPrefix)) ours.push_back(variable);
    }
    std::sort(ours.begin(), ours.end());
    for (const std::string& variable : ours) {
      const std::size_t equals = variable.find('=');
      if (equals == std::string::npos) continue;
      const std::string name = variable.substr(0, equals);
      if (const Setting* setting = FindSettingByEnv(name); setting != nullptr) {
        Apply(*setting, variable.substr(equals + 1), "env " + name);
      } else if (!Elsewhere(name)) {
        loaded_.warnings.push_back("environment variable " + name +
                                   " is not a setting and has no effect" +
                                   DidYouMean(Nearest(name, NamesOfVariables())));
      }
    }
  }

  bool Elsewhere(const std::string& name) const {
    const auto& others = sources_.other_environment;
    return name == kConfigEnv || std::find(others.begin(), others.end(), name) != others.end();
  }

  void Flags() {
    for (const auto& [name, text] : sources_.flags) {
      const Setting* setting = FindSetting(name);
      if (setting == nullptr) {
        Problem("unknown setting \"" + name + "\"" + DidYouMean(Nearest(name, NamesOfSettings())));
      } else {
        Apply(*setting, text, "flag --" + setting->FlagName());
      }
    }
  }

  const ConfigSources& sources_;
  LoadedConfig loaded_;
  std::string problems_;
  StatusCode code_ = StatusCode::kInvalidArgument;
};

}  // namespace

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> out;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    out.emplace_back(*variable);
  return out;
}

Result<LoadedConfig> LoadConfig(const ConfigSources& sources) { return Loader(sources).Run(); }

Status ValidateConfigFile(const std::string& path) {
  ConfigSources sources;
  sources.config_file = path;
  return LoadConfig(sources).status();
}

Status CheckConsistent(const ServerConfig& config) {
  std::string problems;
  const auto ordered = [&problems](std::string_view low_name, auto low, std::string_view high_name,
                                   auto high) {
    if (low <= high) return;
    problems += (problems.empty() ? "" : "\n") + std::string(low_name) + " may not be above " +
                std::string(high_name);
  };
  const queue::QueueConfig& queue = config.queue;
  ordered("limits.lease_min", queue.lease_duration_min, "limits.lease_default",
          queue.lease_duration_default);
  ordered("limits.lease_default", queue.lease_duration_default, "limits.lease_max",
          queue.lease_duration_max);
  ordered("limits.payload_bytes_max", queue.payload_bytes_max, "limits.request_bytes_max",
          config.rpc.request_bytes_max);
  ordered("backlog.store_retry_min", queue.backlog.store_retry_min, "backlog.store_retry_max",
          queue.backlog.store_retry_max);
  ordered("backlog.write_batch_max", queue.backlog.write_batch_max, "backlog.range_size",
          static_cast<std::size_t>(queue.backlog.range_size));
  const TlsSettings& tls = config.rpc.tls;
  const auto needs = [&problems](std::string_view given_name, const std::string& given,
                                 std::string_view needed_name, const std::string& needed) {
    if (given.empty() || !needed.empty()) return;
    problems += (problems.empty() ? "" : "\n") + std::string(given_name) + " needs " +
                std::string(needed_name) + " as well";
  };
  needs("rpc.tls_cert_file", tls.cert_file, "rpc.tls_key_file", tls.key_file);
  needs("rpc.tls_key_file", tls.key_file, "rpc.tls_cert_file", tls.cert_file);
  needs("rpc.tls_client_ca_file", tls.client_ca_file, "rpc.tls_cert_file", tls.cert_file);
  const NodeSettings& node = config.node;
  ordered("three times node.heartbeat", 3 * node.heartbeat, "node.expiry", node.expiry);
  needs("node.tls_cert_file", node.tls_cert_file, "node.tls_key_file", node.tls_key_file);
  needs("node.tls_key_file", node.tls_key_file, "node.tls_cert_file", node.tls_cert_file);
  if (config.temporal.enabled) {
    const auto history = HistoryConfigFrom(config.temporal);
    if (!history.ok()) {
      problems += (problems.empty() ? "" : "\n") + std::string(history.status().message());
    }
  }
  return problems.empty() ? OkStatus() : Status(StatusCode::kInvalidArgument, problems);
}

}  // namespace millrace::server
