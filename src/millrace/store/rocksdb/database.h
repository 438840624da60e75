#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/base/status.h"
#include "millrace/store/rocksdb/data_directory.h"
#include "millrace/store/rocksdb/rocks_config.h"

namespace rocksdb {
class DB;
class Status;
}  // namespace rocksdb

namespace millrace::store {

// The RocksDB database of a data directory: opened, watched for errors, closed and opened again.
//
// Thread: any; Open and Reopen one at a time.
// Invariants: while a Pin exists the database it names stays open.
class Database {
 public:
  // `on_broken` runs, on any thread, when the database turns from writable to not; it must not call
  // back.
  Database(const RocksTaskStoreConfig& config, Log& log, Closure on_broken);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Once, first.
  Status Open();

  // Use of the open database.
  class Pin {
   public:
    Pin(Pin&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), db_(other.db_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (owner_ != nullptr) owner_->Unpin();
    }
    rocksdb::DB* operator->() const { return db_; }

   private:
    friend class Database;
    Pin(Database* owner, rocksdb::DB* db) : owner_(owner), db_(db) {}
    Database* owner_;
    rocksdb::DB* db_;
  };

  // The error that broke it, when it is not open.
  Result<Pin> Use();

  // Ok, or why no write may be tried: the status that writers are refused with. Cheap.
  [[nodiscard]] Status Writable();
  // From now on not writable, until Reopen works.
  void Break(const rocksdb::Status& why);

  // When not writable: finds out whether the disk takes writes, waits until nobody uses the
  // database, closes it and opens it again. Nobody may write meanwhile.
  Status Reopen();

  // The last sequence number known to be synced. Thread: the writer.
  std::uint64_t synced_through = 0;

 private:
  class ErrorListener;

  void Unpin();
  Status OpenDb(bool create);

  const RocksTaskStoreConfig config_;
  Log& log_;
  Closure on_broken_;
  std::unique_ptr<DataDirectory> directory_;

  std::atomic<bool> broken_ = true;
  Mutex mutex_;
  CondVar unused_;
  Status broken_status_ MR_GUARDED_BY(mutex_) = {StatusCode::kUnavailable, "the store is not open"};
  std::unique_ptr<rocksdb::DB> db_ MR_GUARDED_BY(mutex_);
  int pins_ MR_GUARDED_BY(mutex_) = 0;
  bool reopening_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::store
