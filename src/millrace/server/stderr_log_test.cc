#include "millrace/server/stderr_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <sstream>
#include <thread>

#include "millrace/exec/manual_executor.h"
#include "millrace/server/json_text.h"
#include "millrace/server/log_line.h"

namespace millrace::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr WallTime kWhen{1'700'000'000'123'456'789};

// A descriptor whose content can be read back.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("log", 0)) {
    // Threads write at the end, as they would to a log file of a service manager.
    fcntl(fd_, F_SETFL, O_APPEND);
  }
  ~MemoryFile() { close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::vector<std::string> Lines() const {
    std::string text(1 << 20, '\0');
    const ssize_t n = pread(fd_, text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

 private:
  int fd_;
};

TEST(LogLineTest, TimesAreRfc3339Utc) {
  EXPECT_EQ(Rfc3339(kWhen), "2023-11-14T22:13:20.123456Z");
  EXPECT_EQ(Rfc3339(WallTime{0}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(Rfc3339(WallTime{-1}), "1969-12-31T23:59:59.999999Z");
}

TEST(LogLineTest, Text) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kWhen, LogLevel::kWarn, "store", "slow sync",
                          {{"queue", "mail out"},
                           {"ms", std::int64_t{12}},
                           {"ok", false},
                           {"ratio", 0.5},
                           {"id", "a-1"}}),
            "2023-11-14T22:13:20.123456Z WARN  store: slow sync queue=\"mail out\" ms=12 ok=false "
            "ratio=0.5 id=a-1\n");
}

TEST(LogLineTest, Json) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, kWhen, LogLevel::kError, "rpc", "said \"no\"",
                          {{"queue", "a\nb"}, {"n", std::int64_t{-1}}, {"up", true}}),
            "{\"ts\":\"2023-11-14T22:13:20.123456Z\",\"level\":\"error\",\"component\":\"rpc\","
            "\"msg\":\"said \\\"no\\\"\","
            "\"queue\":\"a\\nb\",\"n\":-1,\"up\":true}\n");
  EXPECT_THAT(FormatLogLine(LogFormat::kJson, kWhen, LogLevel::kInfo, "x", "y",
                            {{"v", std::numeric_limits<double>::infinity()}}),
              HasSubstr("\"v\":\"inf\""));
}

TEST(LogLineTest, NothingBreaksTheLine) {
  const std::string line = FormatLogLine(LogFormat::kText, kWhen, LogLevel::kInfo, "x",
                                         "two\nlines", {{"v", "a\r\nb"}, {"e", ""}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, HasSubstr("v=\"a\\r\\nb\" e=\"\""));
}

TEST(JsonTextTest, BadUtf8IsReplacedAndGoodIsKept) {
  EXPECT_EQ(JsonString("gr\xC3\xBC\xC3\x9F"), "\"gr\xC3\xBC\xC3\x9F\"");
  EXPECT_EQ(JsonString("\xF0\x9F\x8E\x89"), "\"\xF0\x9F\x8E\x89\"");
  for (const std::string bad : {"\xFF", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_THAT(JsonString(bad), HasSubstr("\xEF\xBF\xBD")) << bad;
  }
  EXPECT_EQ(JsonString(std::string_view("a\0b\x7F", 4)), "\"a\\u0000b\\u007f\"");
}

TEST(StderrLogTest, LevelFiltersAndCanChange) {
  exec::ManualClock clock;
  MemoryFile file;
  StderrLog log(clock, LogLevel::kInfo, LogFormat::kText, file.fd());
  EXPECT_FALSE(log.Enabled(LogLevel::kDebug));
  log.Write(LogLevel::kDebug, "t", "hidden", {});
  log.Write(LogLevel::kInfo, "t", "shown", {});
  log.SetLevel(LogLevel::kDebug);
  log.Write(LogLevel::kDebug, "t", "now shown", {});
  EXPECT_THAT(file.Lines(),
              ElementsAre(HasSubstr("INFO  t: shown"), HasSubstr("DEBUG t: now shown")));
}

TEST(StderrLogTest, RepeatsAreCountedAndReportedByTheNextWindow) {
  exec::ManualClock clock;
  MemoryFile file;
  StderrLog log(clock, LogLevel::kInfo, LogFormat::kText, file.fd());
  for (int i = 0; i < StderrLog::kRepeatsMax + 7; ++i)
    log.Write(LogLevel::kWarn, "store", "failed", {{"i", std::int64_t{i}}});
  log.Write(LogLevel::kWarn, "store", "something else", {});
  EXPECT_EQ(file.Lines().size(), StderrLog::kRepeatsMax + 1U);
  clock.Advance(StderrLog::kRepeatWindow);
  log.Write(LogLevel::kWarn, "store", "failed", {{"i", std::int64_t{99}}});
  const auto lines = file.Lines();
  ASSERT_EQ(lines.size(), StderrLog::kRepeatsMax + 3U);
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("store: failed suppressed=7"));
  EXPECT_THAT(lines.back(), HasSubstr("store: failed i=99"));
}

TEST(StderrLogTest, SuppressedLinesAreReportedWithoutALaterOne) {
  exec::ManualClock clock;
  MemoryFile file;
  {
    StderrLog log(clock, LogLevel::kInfo, LogFormat::kText, file.fd());
    for (int i = 0; i < StderrLog::kRepeatsMax + 3; ++i) log.Write(LogLevel::kError, "a", "x", {});
    log.FlushRepeats();
    EXPECT_EQ(file.Lines().size(), static_cast<std::size_t>(StderrLog::kRepeatsMax));
    clock.Advance(StderrLog::kRepeatWindow);
    log.FlushRepeats();
    EXPECT_THAT(file.Lines().back(), HasSubstr("ERROR a: x suppressed=3"));
    for (int i = 0; i < StderrLog::kRepeatsMax + 4; ++i) log.Write(LogLevel::kError, "a", "x", {});
  }
  EXPECT_THAT(file.Lines().back(), HasSubstr("suppressed=4"));
}

TEST(StderrLogTest, TooManyDifferentMessagesAreNotLimited) {
  exec::ManualClock clock;
  MemoryFile file;
  StderrLog log(clock, LogLevel::kInfo, LogFormat::kText, file.fd());
  for (std::size_t i = 0; i < StderrLog::kRepeatKeysMax; ++i)
    log.Write(LogLevel::kInfo, "t", std::to_string(i), {});
  for (int i = 0; i < StderrLog::kRepeatsMax + 5; ++i)
    log.Write(LogLevel::kInfo, "t", "one more", {});
  EXPECT_EQ(file.Lines().size(), StderrLog::kRepeatKeysMax + StderrLog::kRepeatsMax + 5);
}

TEST(StderrLogTest, LinesOfManyThreadsStayWhole) {
  SystemClock clock;
  MemoryFile file;
  {
    StderrLog log(clock, LogLevel::kInfo, LogFormat::kJson, file.fd());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 200; ++i)
          log.Write(LogLevel::kInfo, "t", std::to_string(t * 1000 + i), {});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto lines = file.Lines();
  EXPECT_EQ(lines.size(), 800U);
  for (const std::string& line : lines)
    EXPECT_TRUE(line.starts_with("{\"ts\":") && line.ends_with("}")) << line;
}

TEST(StderrLogTest, BrokenDescriptorLosesTheLineOnly) {
  exec::ManualClock clock;
  StderrLog log(clock, LogLevel::kInfo, LogFormat::kText, -1);
  log.Write(LogLevel::kInfo, "t", "nowhere", {});
  EXPECT_TRUE(log.Enabled(LogLevel::kInfo));
}

}  // namespace
}  // namespace millrace::server
