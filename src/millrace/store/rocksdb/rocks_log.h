#pragma once

#include <cstdarg>

#include <rocksdb/env.h>

#include "millrace/base/log.h"

namespace millrace::store {

// Passes RocksDB's warnings and errors on to our log; the rest is dropped, and no LOG files pile up
// in the data directory. Thread: any.
class RocksLog final : public rocksdb::Logger {
 public:
  explicit RocksLog(Log& log) : rocksdb::Logger(rocksdb::WARN_LEVEL), log_(log) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override;
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override;

 private:
  Log& log_;
};

}  // namespace millrace::store
