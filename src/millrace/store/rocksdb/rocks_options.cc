#include "millrace/store/rocksdb/rocks_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

namespace millrace::store {

rocksdb::Options MakeRocksOptions(const RocksTaskStoreConfig& config) {
  rocksdb::Options options;
  options.env = config.env != nullptr ? config.env : rocksdb::Env::Default();

  // An incomplete record at the end of the log is a write that was never acknowledged. Anything
  // else that does not check out is damage, and refused: point-in-time recovery would start
  // without the acknowledged work behind it and say nothing. wal_check.h looks first.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.paranoid_checks = true;

  // One thread writes, a group at a time: the machinery for concurrent writers is only in its way.
  options.allow_concurrent_memtable_write = false;
  options.enable_write_thread_adaptive_yield = false;

  options.write_buffer_size = config.write_buffer_bytes;
  options.max_write_buffer_number = 3;
  options.max_background_jobs = 2;
  options.max_open_files = config.open_files_max;

  // A table that is mostly tombstones is compacted away soon.
  options.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(/*sliding_window_size=*/16'384,
                                                    /*deletion_trigger=*/12'288,
                                                    /*deletion_ratio=*/0.0));
  options.target_file_size_base = 32u << 20;
  options.max_bytes_for_level_base = 128u << 20;
  options.level_compaction_dynamic_level_bytes = true;
  // Young tables live for seconds; only what stays is worth the time to pack.
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kLZ4Compression;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(config.block_cache_bytes);
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_size = 16u << 10;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  // An idle server does nothing.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.keep_log_file_num = 1;

  // RocksTaskStore heals by opening again, which decides every write; RocksDB must not go on by
  // itself.
  options.max_bgerror_resume_count = 0;
  return options;
}

}  // namespace millrace::store
