// Settings from a file, flags and the environment: any text is a setting or a clear refusal, and
// what was read is printed so that it reads back the same.

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "millrace/server/config_file.h"
#include "millrace/server/config_load.h"
#include "millrace/server/setting.h"
#include "millrace/server/value_text.h"

namespace millrace::server {
namespace {

using fuzz::FuzzInput;

// A file that exists in memory only.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : fd_(memfd_create("config", MFD_CLOEXEC)) {
    FUZZ_CHECK(fd_ >= 0);
    FUZZ_CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void CheckValues(std::string_view text) {
  const Result<Duration> duration = ParseDuration(text);
  if (duration.ok()) {
    const Result<Duration> again = ParseDuration(FormatDuration(*duration));
    FUZZ_CHECK(again.ok() && *again == *duration);
  }
  const Result<std::int64_t> size = ParseSize(text);
  if (size.ok()) {
    const Result<std::int64_t> again = ParseSize(FormatSize(*size));
    FUZZ_CHECK(again.ok() && *again == *size);
  }
  (void)ParseInteger(text);
  (void)ParseBool(text);
  for (const Setting& setting : ServerSettings()) {
    const Result<SettingValue> value = ParseSetting(setting, text);
    if (!value.ok()) {
      FUZZ_CHECK(!value.status().message().empty());
      continue;
    }
    const Result<SettingValue> again = ParseSetting(setting, FormatSetting(setting, *value));
    FUZZ_CHECK(again.ok() && *again == *value);
  }
}

void CheckFile(std::string_view text) {
  const Result<std::vector<FileEntry>> entries = ParseConfigText(std::string(text), "a.yaml");
  if (entries.ok()) {
    for (const FileEntry& entry : *entries) FUZZ_CHECK(entry.line >= 1 && !entry.name.empty());
  } else {
    FUZZ_CHECK(entries.status().message().starts_with("a.yaml"));
  }
}

void CheckLoad(FuzzInput& in) {
  ConfigSources sources;
  const auto settings = ServerSettings();
  for (unsigned i = in.Below(4); i > 0; --i) {
    const std::string name =
        in.Below(4) == 0 ? in.String() : std::string(settings[in.Byte() % settings.size()].name);
    sources.flags.emplace_back(name, in.String());
  }
  for (unsigned i = in.Below(4); i > 0; --i) {
    sources.environment.push_back(
        in.Below(4) == 0 ? in.String()
                         : settings[in.Byte() % settings.size()].EnvName() + "=" + in.String());
  }
  const MemoryFile file(in.Rest());
  sources.config_file = file.path();
  const Result<LoadedConfig> loaded = LoadConfig(sources);
  if (!loaded.ok()) {
    FUZZ_CHECK(!loaded.status().message().empty());
    return;
  }
  FUZZ_CHECK(CheckConsistent(loaded->config).ok());
  for (const Setting& setting : settings) {
    ServerConfig copy = loaded->config;
    const Result<SettingValue> value = ParseSetting(setting, SettingText(setting, copy));
    FUZZ_CHECK(value.ok() && *value == setting.read(copy));
  }
}

}  // namespace
}  // namespace millrace::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::server;
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(3)) {
    case 0:
      CheckValues(in.Rest());
      break;
    case 1:
      CheckFile(in.Rest());
      break;
    default:
      CheckLoad(in);
      break;
  }
  return 0;
}
