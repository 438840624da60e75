#pragma once

#include <string>

#include <rocksdb/status.h>

#include "millrace/base/status.h"

namespace millrace::store {

// What a RocksDB error means to a caller whose operation surely was not applied; `doing` starts the
// message.
Status FromRocks(const rocksdb::Status& status, const std::string& doing);

}  // namespace millrace::store
