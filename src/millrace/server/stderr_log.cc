#include "millrace/server/stderr_log.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "millrace/server/log_line.h"

namespace millrace::server {

StderrLog::StderrLog(const Clock& clock, LogLevel level, LogFormat format, int fd)
    : clock_(clock), format_(format), fd_(fd), level_(level) {}

StderrLog::~StderrLog() { Flush(true); }

void StderrLog::Write(LogLevel level, std::string_view component, std::string_view message,
                      std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  std::int64_t suppressed = 0;
  if (!Admit(level, component, message, suppressed)) return;
  if (suppressed > 0) {
    WriteLine(FormatLogLine(format_, clock_.WallNow(), level, component, message,
                            {{"suppressed", suppressed}}));
  }
  WriteLine(FormatLogLine(format_, clock_.WallNow(), level, component, message, fields));
}

bool StderrLog::Admit(LogLevel level, std::string_view component, std::string_view message,
                      std::int64_t& suppressed) {
  const Instant now = clock_.Now();
  MutexLock lock(mutex_);
  Key key(component, message);
  auto it = repeats_.find(key);
  if (it == repeats_.end()) {
    if (repeats_.size() >= kRepeatKeysMax) return true;
    it = repeats_.emplace(std::move(key), Repeats{.window_end = now + kRepeatWindow}).first;
  }
  Repeats& repeats = it->second;
  if (now >= repeats.window_end) {
    suppressed = repeats.suppressed;
    repeats = Repeats{.window_end = now + kRepeatWindow};
  }
  repeats.level = level;
  if (repeats.written >= kRepeatsMax) {
    ++repeats.suppressed;
    return false;
  }
  ++repeats.written;
  return true;
}

void StderrLog::FlushRepeats() { Flush(false); }

void StderrLog::Flush(bool all) {
  std::vector<std::pair<Key, Repeats>> over;
  const Instant now = clock_.Now();
  {
    MutexLock lock(mutex_);
    for (auto it = repeats_.begin(); it != repeats_.end();) {
      if (!all && now < it->second.window_end) {
        ++it;
        continue;
      }
      if (it->second.suppressed > 0) over.emplace_back(it->first, it->second);
      it = repeats_.erase(it);
    }
  }
  for (const auto& [key, repeats] : over) {
    WriteLine(FormatLogLine(format_, clock_.WallNow(), repeats.level, key.first, key.second,
                            {{"suppressed", repeats.suppressed}}));
  }
}

void StderrLog::WriteLine(const std::string& line) const {
  ssize_t written = 0;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
}

}  // namespace millrace::server
