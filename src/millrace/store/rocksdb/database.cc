#include "millrace/store/rocksdb/database.h"

#include <utility>

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include "millrace/store/rocksdb/rocks_log.h"
#include "millrace/store/rocksdb/rocks_options.h"
#include "millrace/store/rocksdb/rocks_status.h"
#include "millrace/store/rocksdb/wal_check.h"

namespace millrace::store {

// Hears of errors of flushes and compactions, after which RocksDB takes no writes.
class Database::ErrorListener final : public rocksdb::EventListener {
 public:
  explicit ErrorListener(Database& database) : database_(database) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    if (error->severity() >= rocksdb::Status::kHardError) database_.Break(*error);
  }

 private:
  Database& database_;
};

Database::Database(const RocksTaskStoreConfig& config, Log& log, Closure on_broken)
    : config_(config), log_(log), on_broken_(std::move(on_broken)) {}

Database::~Database() {
  std::unique_ptr<rocksdb::DB> closing;
  {
    MutexLock lock(mutex_);
    MR_CHECK(pins_ == 0);
    closing = std::move(db_);
  }
}

Status Database::Open() {
  rocksdb::Env& env = config_.env != nullptr ? *config_.env : *rocksdb::Env::Default();
  Result<std::unique_ptr<DataDirectory>> directory = DataDirectory::Open(env, config_.path);
  if (!directory.ok()) return directory.status();
  directory_ = std::move(*directory);
  const bool create = directory_->is_new();
  MR_RETURN_IF_ERROR(OpenDb(create));
  if (create) MR_RETURN_IF_ERROR(directory_->MarkCreated());
  broken_.store(false, std::memory_order_release);
  return {};
}

Status Database::OpenDb(bool create) {
  rocksdb::Options options = MakeRocksOptions(config_);
  options.create_if_missing = create;
  options.info_log = std::make_shared<RocksLog>(log_);
  options.listeners.push_back(std::make_shared<ErrorListener>(*this));
  if (!create) MR_RETURN_IF_ERROR(CheckWals(*options.env, directory_->db_path(), log_));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory_->db_path(), &db);
  if (!opened.ok()) {
    const std::string doing = "cannot open data directory " + directory_->path();
    if (!create && opened.IsInvalidArgument()) {
      return {StatusCode::kCorruption, doing + ": it is damaged: " + opened.ToString()};
    }
    Status status = FromRocks(opened, doing);
    if (status.code() != StatusCode::kCorruption) return status;
    return {StatusCode::kCorruption, doing + ": it is damaged: " + opened.ToString()};
  }
  synced_through = db->GetLatestSequenceNumber();
  MutexLock lock(mutex_);
  db_.reset(db);
  return {};
}

Result<Database::Pin> Database::Use() {
  MutexLock lock(mutex_);
  if (reopening_) return Status(StatusCode::kUnavailable, "the store is being opened again");
  if (db_ == nullptr) return broken_status_;
  ++pins_;
  return Pin(this, db_.get());
}

void Database::Unpin() {
  MutexLock lock(mutex_);
  if (--pins_ == 0 && reopening_) unused_.NotifyAll();
}

Status Database::Writable() {
  if (!broken_.load(std::memory_order_acquire)) return {};
  MutexLock lock(mutex_);
  return broken_status_;
}

void Database::Break(const rocksdb::Status& why) {
  {
    MutexLock lock(mutex_);
    // Corruption that a write or a compaction met is of no use to the one whose write is refused.
    broken_status_ = {StatusCode::kUnavailable, "the store takes no writes: " + why.ToString()};
    if (broken_.exchange(true, std::memory_order_acq_rel)) return;
  }
  log_.Write(LogLevel::kError, "store", "store takes no writes until this is over",
             {{"error", why.ToString()}});
  on_broken_();
}

Status Database::Reopen() {
  if (!broken_.load(std::memory_order_acquire)) return {};
  Status probed = directory_->Probe();
  if (!probed.ok()) {
    MutexLock lock(mutex_);
    broken_status_ = probed;
    return probed;
  }
  std::unique_ptr<rocksdb::DB> closing;
  {
    MutexLock lock(mutex_);
    reopening_ = true;
    while (pins_ > 0) unused_.Wait(mutex_);
    closing = std::move(db_);
  }
  closing.reset();
  Status opened = OpenDb(/*create=*/false);
  {
    MutexLock lock(mutex_);
    reopening_ = false;
    // What is wrong is in the message; to a writer it means no more than "not now".
    broken_status_ =
        opened.ok() ? opened : Status(StatusCode::kUnavailable, std::string(opened.message()));
    if (opened.ok()) broken_.store(false, std::memory_order_release);
  }
  if (opened.ok()) {
    log_.Write(LogLevel::kInfo, "store", "store takes writes again", {});
  } else {
    log_.Write(LogLevel::kWarn, "store", "store could not be opened again yet",
               {{"error", opened.message()}});
  }
  return opened;
}

}  // namespace millrace::store
