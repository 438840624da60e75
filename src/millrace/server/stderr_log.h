#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/base/annotations.h"
#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/base/time.h"
#include "millrace/server/config.h"

namespace millrace::server {

// Writes log lines to a file descriptor, each with one write(2), so that lines of several threads
// and processes do not mix. Lines with the same component and message count as repeats, whatever
// their fields: of these, the first kRepeatsMax of a window are written and the rest are counted;
// the next one that is written says "suppressed".
//
// Thread: any.
// Bounds: kRepeatKeysMax different messages are remembered; beyond that, new ones are not limited.
// Fails: never; a line the descriptor refuses is lost.
class StderrLog final : public Log {
 public:
  static constexpr int kRepeatsMax = 20;
  static constexpr Duration kRepeatWindow = std::chrono::seconds(10);
  static constexpr std::size_t kRepeatKeysMax = 1'000;

  // `clock` must outlive the log; `fd` stays the caller's.
  StderrLog(const Clock& clock, LogLevel level, LogFormat format, int fd = 2);
  ~StderrLog() override;

  [[nodiscard]] bool Enabled(LogLevel level) const override {
    return level >= level_.load(std::memory_order_relaxed);
  }
  void Write(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields) override;

  void SetLevel(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  // Reports and forgets messages whose window is over. Called from time to time, and at the end.
  void FlushRepeats();

 private:
  struct Repeats {
    Instant window_end;
    int written = 0;
    std::int64_t suppressed = 0;
    LogLevel level = LogLevel::kInfo;
  };
  using Key = std::pair<std::string, std::string>;

  // True when the line is to be written; `suppressed` then says how many before it were not.
  bool Admit(LogLevel level, std::string_view component, std::string_view message,
             std::int64_t& suppressed);
  void Flush(bool all);
  void WriteLine(const std::string& line) const;

  const Clock& clock_;
  const LogFormat format_;
  const int fd_;
  std::atomic<LogLevel> level_;
  Mutex mutex_;
  std::map<Key, Repeats> repeats_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::server
