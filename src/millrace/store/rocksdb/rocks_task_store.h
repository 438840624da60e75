#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/store/rocksdb/database.h"
#include "millrace/store/rocksdb/queue_cache.h"
#include "millrace/store/rocksdb/rocks_config.h"
#include "millrace/store/task_store.h"

namespace rocksdb {
class WriteBatch;
}  // namespace rocksdb

namespace millrace::store {

// The embedded TaskStore: RocksDB in a data directory that this process owns alone.
// docs/storage_format.md draws the bytes.
//
// A Commit is one write batch and one sync, however many queues are in it. A write that failed
// inside RocksDB has an unknown outcome, and stops everything: from then on every write is refused
// at once, until the database has been closed and opened again, which decides what was unknown.
// That is tried every heal_retry until it works.
//
//     serving --write or background error--> broken --probe, close, open--> serving
//
// Thread: any. Writes take turns; reads overlap with everything but the moment of reopening.
// Bounds: memory by the config: cache, three memtables, remembered queues.
// Fails: while broken (no space, I/O errors), writes kUnavailable; reads go on as long as the
// database is open, else the same.
// Invariants: a write reported ok is synced, unless the config or all writes of its group said
// relaxed.
class RocksTaskStore final : public TaskStore {
 public:
  // Errors are those of DataDirectory, and kCorruption when the database in it is damaged.
  static Result<std::unique_ptr<RocksTaskStore>> Open(const RocksTaskStoreConfig& config, Log& log);
  ~RocksTaskStore() override;
  RocksTaskStore(const RocksTaskStore&) = delete;
  RocksTaskStore& operator=(const RocksTaskStore&) = delete;

  [[nodiscard]] StoreTraits traits() const override {
    return {.exclusive = true, .counts_deletes = true};
  }
  std::vector<Status> Commit(std::span<const QueueWrite> writes) override;
  Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) override;
  Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                             TaskLevel through, std::size_t limit, std::size_t max_bytes) override;
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                         Subqueue subqueue, TaskLevel through,
                                                         std::size_t limit) override;
  Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                std::string_view after, std::size_t limit) override;
  Result<QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override;
  Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) override;
  Status Health() override;

  // When broken: one attempt to serve again. Ok: serving (now, or all the time).
  Status TryHeal();

 private:
  RocksTaskStore(const RocksTaskStoreConfig& config, Log& log);

  // From the cache if it can be. Leaves the encoded queue key in queue_key_.
  Result<CachedQueue*> FindQueue(const Database::Pin& db, const PhysicalQueueKey& queue)
      MR_REQUIRES(write_turn_);
  // Encodes the stored metadata row, at key_, with the write's range id into value_.
  Status EncodeKeepingOwnerState(const Database::Pin& db, const QueueWrite& write)
      MR_REQUIRES(write_turn_);
  // Empties batch_ but for the claim, which comes first (wal_scan.h reads it there).
  void StartBatch() MR_REQUIRES(write_turn_);
  Status AddToBatch(const Database::Pin& db, const QueueWrite& write) MR_REQUIRES(write_turn_);
  // Adds the deletion of every row whose key starts with `prefix`.
  Status DeleteRows(const Database::Pin& db, std::string_view prefix) MR_REQUIRES(write_turn_);
  // Writes batch_. An error breaks the store.
  Status Write(const Database::Pin& db, bool sync) MR_REQUIRES(write_turn_);
  void HealLoop();

  const RocksTaskStoreConfig config_;
  Log& log_;

  Mutex heal_mutex_;
  CondVar heal_wake_;
  bool stopping_ MR_GUARDED_BY(heal_mutex_) = false;

  Database database_;

  // Held by the one that writes, across the write: that is what makes check and write one step.
  Mutex write_turn_;
  QueueCache queues_ MR_GUARDED_BY(write_turn_);
  const std::unique_ptr<rocksdb::WriteBatch> batch_ MR_PT_GUARDED_BY(write_turn_);
  std::string queue_key_ MR_GUARDED_BY(write_turn_);  // Scratch.
  std::string key_ MR_GUARDED_BY(write_turn_);        // Scratch.
  std::string value_ MR_GUARDED_BY(write_turn_);      // Scratch.

  std::thread heal_thread_;
};

}  // namespace millrace::store
