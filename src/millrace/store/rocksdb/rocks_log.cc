#include "millrace/store/rocksdb/rocks_log.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace millrace::store {

// Lines without a level are informational.
void RocksLog::Logv(const char*, va_list) {}

void RocksLog::Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) {
  if (level < rocksdb::WARN_LEVEL || level > rocksdb::FATAL_LEVEL) return;
  const LogLevel ours = level == rocksdb::WARN_LEVEL ? LogLevel::kWarn : LogLevel::kError;
  if (!log_.Enabled(ours)) return;
  char text[1024];
  const int size = std::vsnprintf(text, sizeof(text), format, arguments);
  if (size <= 0) return;
  std::string_view line(text, std::min(static_cast<std::size_t>(size), sizeof(text) - 1));
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  log_.Write(ours, "rocksdb", line, {});
}

}  // namespace millrace::store
