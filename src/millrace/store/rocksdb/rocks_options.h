#pragma once

#include <rocksdb/options.h>

#include "millrace/store/rocksdb/rocks_config.h"

namespace millrace::store {

// RocksDB set up for queues: rows are written once, read about once, soon deleted, and always read
// from a known position on.
rocksdb::Options MakeRocksOptions(const RocksTaskStoreConfig& config);

}  // namespace millrace::store
