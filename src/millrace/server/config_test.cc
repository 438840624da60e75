#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "millrace/server/config_file.h"
#include "millrace/server/config_load.h"
#include "millrace/server/config_print.h"
#include "millrace/server/setting.h"
#include "millrace/server/suggest.h"

namespace millrace::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A file that goes away with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    char path[] = "/tmp/millrace_config_XXXXXX";
    close(mkstemp(path));
    path_ = path;
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string MessageOf(const ConfigSources& sources) {
  const auto loaded = LoadConfig(sources);
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

TEST(SettingTableTest, NamesFlagsAndVariablesAreUniqueAndDefaultsAreLegal) {
  std::set<std::string> names;
  std::set<std::string> flags;
  std::set<std::string> variables;
  for (const Setting& setting : ServerSettings()) {
    EXPECT_TRUE(names.insert(std::string(setting.name)).second) << setting.name;
    EXPECT_TRUE(flags.insert(setting.FlagName()).second) << setting.name;
    EXPECT_TRUE(variables.insert(setting.EnvName()).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_EQ(setting.choices.empty(), setting.type != SettingType::kEnum) << setting.name;
    // Every default passes its own bounds and survives printing and reading.
    const auto parsed = ParseSetting(setting, setting.DefaultText());
    ASSERT_TRUE(parsed.ok()) << setting.name << ": " << parsed.status();
    EXPECT_EQ(*parsed, setting.read(ServerConfig())) << setting.name;
  }
}

TEST(SettingTableTest, WriteChangesWhatReadReads) {
  for (const Setting& setting : ServerSettings()) {
    ServerConfig config;
    SettingValue other = setting.read(config);
    if (auto* text = std::get_if<std::string>(&other)) *text += "x";
    if (auto* flag = std::get_if<bool>(&other)) *flag = !*flag;
    if (auto* number = std::get_if<std::int64_t>(&other))
      *number = setting.type == SettingType::kEnum ? 1 - *number % 2 : *number + 1;
    setting.write(config, other);
    EXPECT_EQ(setting.read(config), other) << setting.name;
    // No other setting moved: each has its own field.
    for (const Setting& rest : ServerSettings()) {
      if (rest.name == setting.name) continue;
      EXPECT_EQ(rest.read(config), rest.read(ServerConfig()))
          << setting.name << " moved " << rest.name;
    }
  }
}

TEST(SettingTableTest, NamesGiveFlagsAndVariables) {
  const Setting* setting = FindSetting("log.level");
  ASSERT_NE(setting, nullptr);
  EXPECT_EQ(setting->FlagName(), "log-level");
  EXPECT_EQ(setting->EnvName(), "MILLRACE_LOG_LEVEL");
  EXPECT_EQ(setting->TypeName(), "debug|info|warn|error");
  EXPECT_EQ(FindSettingByEnv("MILLRACE_DATA_DIR"), FindSetting("data_dir"));
  EXPECT_EQ(FindSetting("log.nonsense"), nullptr);
}

TEST(SettingTableTest, BoundsAreEnforcedAndNamed) {
  const Setting& payload = *FindSetting("limits.payload_bytes_max");
  EXPECT_THAT(std::string(ParseSetting(payload, "17MiB").status().message()),
              HasSubstr("at most 16MiB"));
  EXPECT_THAT(std::string(ParseSetting(payload, "1").status().message()),
              HasSubstr("at least 1KiB"));
  const Setting& level = *FindSetting("log.level");
  EXPECT_THAT(std::string(ParseSetting(level, "inof").status().message()),
              HasSubstr("did you mean info?"));
  EXPECT_FALSE(ParseSetting(level, "").ok());
}

TEST(ConfigLoadTest, NothingGivenGivesDefaults) {
  const auto loaded = LoadConfig({});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.listen, "127.0.0.1:7630");
  EXPECT_EQ(loaded->config.admin_listen, "127.0.0.1:7631");
  EXPECT_EQ(loaded->config.queue.backlog.outstanding_appends_max, 10'000U);
  EXPECT_EQ(loaded->config.queue.backlog.write_batch_max, 1'000U);
  EXPECT_TRUE(loaded->config.queue.backlog.delete_on_finish);
  EXPECT_TRUE(loaded->origins.empty());
  EXPECT_TRUE(loaded->warnings.empty());
}

TEST(ConfigLoadTest, FlagsBeatEnvironmentBeatsFileBeatsDefaults) {
  const TempFile file(
      "listen: 127.0.0.1:1\nlog:\n  level: error\n  format: json\nlimits:\n  lease_default: 5s\n");
  ConfigSources sources;
  sources.config_file = file.path();
  sources.environment = {"MILLRACE_LOG_LEVEL=warn", "MILLRACE_LISTEN=127.0.0.1:2", "PATH=/bin"};
  sources.flags = {{"listen", "127.0.0.1:3"}};
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.listen, "127.0.0.1:3");
  EXPECT_EQ(loaded->config.log.level, LogLevel::kWarn);
  EXPECT_EQ(loaded->config.log.format, LogFormat::kJson);
  EXPECT_EQ(loaded->config.queue.lease_duration_default, std::chrono::seconds(5));
  EXPECT_EQ(loaded->origins.at("listen"), "flag --listen");
  EXPECT_EQ(loaded->origins.at("log.level"), "env MILLRACE_LOG_LEVEL");
  EXPECT_EQ(loaded->origins.at("log.format"), file.path() + ":4");
  EXPECT_EQ(loaded->origins.count("data_dir"), 0U);
  EXPECT_EQ(loaded->config_file, file.path());
}

TEST(ConfigLoadTest, FileIsFoundThroughTheEnvironmentUnlessAFlagNamesOne) {
  const TempFile from_env("data_dir: /one\n");
  const TempFile from_flag("data_dir: /two\n");
  ConfigSources sources;
  sources.environment = {"MILLRACE_CONFIG=" + from_env.path()};
  EXPECT_EQ(LoadConfig(sources)->config.data_dir, "/one");
  sources.config_file = from_flag.path();
  EXPECT_EQ(LoadConfig(sources)->config.data_dir, "/two");
}

TEST(ConfigLoadTest, StateFolderOfAServiceManagerIsTheWeakestSource) {
  ConfigSources sources;
  sources.environment = {"STATE_DIRECTORY=/var/lib/a:/var/lib/b"};
  EXPECT_EQ(LoadConfig(sources)->config.data_dir, "/var/lib/a");
  EXPECT_EQ(LoadConfig(sources)->origins.at("data_dir"), "env STATE_DIRECTORY");
  const TempFile file("data_dir: /srv/millrace\n");
  sources.config_file = file.path();
  EXPECT_EQ(LoadConfig(sources)->config.data_dir, "/srv/millrace");
}

TEST(ConfigLoadTest, UnknownKeyNamesLineAndNearest) {
  const TempFile file("log:\n  levle: info\nlisen: 127.0.0.1:5\n");
  ConfigSources sources;
  sources.config_file = file.path();
  const std::string message = MessageOf(sources);
  EXPECT_THAT(message, HasSubstr(file.path() +
                                 ":2: unknown setting \"log.levle\" (did you mean log.level?)"));
  EXPECT_THAT(message,
              HasSubstr(file.path() + ":3: unknown setting \"lisen\" (did you mean listen?)"));
}

TEST(ConfigLoadTest, KeyWithoutItsSectionIsSuggestedWithIt) {
  const TempFile file("lease_max: 5s\n");
  ConfigSources sources;
  sources.config_file = file.path();
  EXPECT_THAT(MessageOf(sources), HasSubstr("did you mean limits.lease_max?"));
}

TEST(ConfigLoadTest, BadValueNamesItsSource) {
  const TempFile file("shutdown:\n  grace: soon\n");
  ConfigSources sources;
  sources.config_file = file.path();
  sources.environment = {"MILLRACE_EVENT_LOOPS=many"};
  sources.flags = {{"limits.payload_bytes_max", "1TiB"}, {"nonsense", "1"}};
  const std::string message = MessageOf(sources);
  EXPECT_THAT(message, HasSubstr(file.path() + ":2: shutdown.grace: expected a duration"));
  EXPECT_THAT(message, HasSubstr("env MILLRACE_EVENT_LOOPS: event_loops: expected a whole number"));
  EXPECT_THAT(
      message,
      HasSubstr("flag --limits-payload-bytes-max: limits.payload_bytes_max: 1TiB is out of range"));
  EXPECT_THAT(message, HasSubstr("unknown setting \"nonsense\""));
}

TEST(ConfigLoadTest, UnknownVariableIsAWarningOnly) {
  ConfigSources sources;
  sources.environment = {"MILLRACE_LOG_LEVLE=info", "MILLRACE_ADDRESS=x", "MILLRACE_CONFIG="};
  sources.other_environment = {"MILLRACE_ADDRESS"};
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(
      loaded->warnings,
      ElementsAre(HasSubstr("MILLRACE_LOG_LEVLE is not a setting and has no effect (did you "
                            "mean MILLRACE_LOG_LEVEL?)")));
}

TEST(ConfigLoadTest, OrdersBetweenSettingsAreChecked) {
  ConfigSources sources;
  sources.flags = {{"limits.lease_min", "2m"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("limits.lease_min may not be above limits.lease_default"));
  sources.flags = {{"limits.lease_max", "10s"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("limits.lease_default may not be above limits.lease_max"));
  sources.flags = {{"limits.request_bytes_max", "64KiB"}};
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("limits.payload_bytes_max may not be above limits.request_bytes_max"));
}

TEST(ConfigLoadTest, TlsFilesGoTogether) {
  ConfigSources sources;
  sources.flags = {{"rpc.tls_cert_file", "a.pem"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("rpc.tls_cert_file needs rpc.tls_key_file as well"));
  sources.flags = {{"rpc.tls_key_file", "a.key"}, {"rpc.tls_client_ca_file", "ca.pem"}};
  EXPECT_THAT(MessageOf(sources), HasSubstr("rpc.tls_key_file needs rpc.tls_cert_file as well"));
  EXPECT_THAT(MessageOf(sources),
              HasSubstr("rpc.tls_client_ca_file needs rpc.tls_cert_file as well"));
  sources.flags.emplace_back("rpc.tls_cert_file", "a.pem");
  EXPECT_TRUE(LoadConfig(sources).ok()) << LoadConfig(sources).status();
}

TEST(ConfigFileTest, EveryShapeErrorNamesItsLine) {
  const auto message = [](const std::string& text) {
    const auto parsed = ParseConfigText(text, "f.yaml");
    return parsed.ok() ? "" : std::string(parsed.status().message());
  };
  EXPECT_THAT(message("a: 1\nb: [1, 2]\n"),
              HasSubstr("f.yaml:2: \"b\" takes one value, not a list"));
  EXPECT_THAT(message("a:\n  b:\n    c: 1\n"),
              HasSubstr("f.yaml:2: \"a.b\" takes a value, not a section"));
  EXPECT_THAT(message("a:\n  b:\n"), HasSubstr("f.yaml:2: \"a.b\" has no value"));
  EXPECT_THAT(message("a: 1\na: 2\n"),
              HasSubstr("f.yaml:2: \"a\" is given twice, first on line 1"));
  EXPECT_THAT(message("a: 1\n  b: : 2\n"), HasSubstr("f.yaml:2: not valid YAML"));
  EXPECT_THAT(message("just words\n"), HasSubstr("f.yaml:1: expected lines"));
  EXPECT_THAT(message("[1]: 2\n"), HasSubstr("a key must be plain text"));
  EXPECT_EQ(message(""), "");
  EXPECT_EQ(message("log:\n"), "");
}

TEST(ConfigFileTest, MissingFileSaysSo) {
  EXPECT_EQ(ReadConfigFile("/nonexistent/x.yaml").code(), StatusCode::kNotFound);
  EXPECT_EQ(ValidateConfigFile("/nonexistent/x.yaml").code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadConfigFile("/tmp").code(), StatusCode::kInvalidArgument);
}

TEST(ConfigPrintTest, DefaultsFileIsValidAsItIsAndWithEveryLineTakenIn) {
  const std::string yaml = DefaultsYaml();
  EXPECT_THAT(yaml, HasSubstr("#listen: \"127.0.0.1:7630\""));
  EXPECT_THAT(yaml, HasSubstr("\nlog:\n"));
  const TempFile commented(yaml);
  EXPECT_TRUE(ValidateConfigFile(commented.path()).ok()) << ValidateConfigFile(commented.path());

  std::string uncommented;
  for (std::size_t i = 0; i < yaml.size(); ++i) {
    if (yaml[i] == '#' && yaml.compare(i, 2, "# ") != 0) continue;
    uncommented.push_back(yaml[i]);
  }
  const TempFile full(uncommented);
  ConfigSources sources;
  sources.config_file = full.path();
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->origins.size(), ServerSettings().size());
  for (const Setting& setting : ServerSettings()) {
    EXPECT_EQ(setting.read(loaded->config), setting.read(ServerConfig())) << setting.name;
  }
}

TEST(ConfigPrintTest, ShowNamesValueAndOrigin) {
  ConfigSources sources;
  sources.flags = {{"shutdown.grace", "90s"}};
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok());
  const auto shown = ShowSettings(*loaded);
  ASSERT_EQ(shown.size(), ServerSettings().size());
  EXPECT_EQ(shown.front().name, "listen");
  EXPECT_EQ(shown.front().origin, "default");
  bool seen = false;
  for (const ShownSetting& setting : shown) {
    if (setting.name != "shutdown.grace") continue;
    seen = true;
    EXPECT_EQ(setting.value, "1m30s");
    EXPECT_EQ(setting.origin, "flag --shutdown-grace");
  }
  EXPECT_TRUE(seen);
}

TEST(SuggestTest, FarWordsGetNoSuggestion) {
  const std::string_view names[] = {"listen", "log.level", "data_dir"};
  EXPECT_EQ(NearestName("lsiten", names), "listen");
  EXPECT_EQ(NearestName("datadir", names), "data_dir");
  EXPECT_EQ(NearestName("level", names), "log.level");
  EXPECT_EQ(NearestName("completely_different", names), "");
}

}  // namespace
}  // namespace millrace::server
