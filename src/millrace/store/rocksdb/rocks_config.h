#pragma once

#include <cstddef>
#include <string>

#include "millrace/base/time.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace millrace::store {

struct RocksTaskStoreConfig {
  std::string path;

  // False: relaxed mode. Nothing is synced; a write is acknowledged once the operating system has
  // it. A killed process loses nothing; a machine that loses power may lose the last seconds of
  // acknowledged work, always the latest part.
  bool sync = true;

  std::size_t block_cache_bytes = 64u << 20;
  // Of one memtable; up to three exist at a time.
  std::size_t write_buffer_bytes = 32u << 20;
  // Open table files; bounds file handles and memory for indexes.
  int open_files_max = 512;
  // Queues whose range id is remembered, so that a write needs no read.
  std::size_t cached_queues_max = 100'000;

  // After a failure: how often to try to get working again. 0 = only when TryHeal is called.
  Duration heal_retry = std::chrono::seconds(1);

  // The file system; null = the machine's. Must outlive the store.
  rocksdb::Env* env = nullptr;
};

}  // namespace millrace::store
