#include "millrace/store/rocksdb/rocks_task_store.h"

#include <algorithm>
#include <utility>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "millrace/base/mutation.h"
#include "millrace/store/key_encoding.h"
#include "millrace/store/rocksdb/rocks_status.h"
#include "millrace/store/rocksdb/row_encoding.h"
#include "millrace/store/rocksdb/wal_claim.h"
#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

// DeleteQueue deletes up to so many rows of a kind one by one, which leaves nothing behind for
// readers to check, and more of them by one range.
constexpr int kPointDeletesMax = 1'000;

// A larger batch gives its memory back.
constexpr std::size_t kKeptBatchBytesMax = 4u << 20;

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
rocksdb::Slice ToSlice(std::string_view view) { return {view.data(), view.size()}; }

// An iterator over [first, end).
struct Scan {
  Scan(const Database::Pin& db, std::string_view first, std::string_view end)
      : upper(ToSlice(end)) {
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &upper;
    iterator.reset(db->NewIterator(options));
    iterator->Seek(ToSlice(first));
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  rocksdb::Slice upper;
  std::unique_ptr<rocksdb::Iterator> iterator;
};

Status Named(const Status& status, const PhysicalQueueKey& queue) {
  return {status.code(), std::string(status.message()) + " (queue " + queue.namespace_id + "/" +
                             queue.persistence_name + ")"};
}

bool ChangesMetadata(std::span<const QueueWrite> writes, const PhysicalQueueKey& queue) {
  return std::any_of(writes.begin(), writes.end(), [&queue](const QueueWrite& write) {
    return write.metadata.has_value() && write.queue == queue;
  });
}

}  // namespace

Result<std::unique_ptr<RocksTaskStore>> RocksTaskStore::Open(const RocksTaskStoreConfig& config,
                                                             Log& log) {
  std::unique_ptr<RocksTaskStore> store(new RocksTaskStore(config, log));
  MR_RETURN_IF_ERROR(store->database_.Open());
  if (config.heal_retry > Duration::zero()) {
    store->heal_thread_ = std::thread([raw = store.get()] { raw->HealLoop(); });
  }
  return store;
}

RocksTaskStore::RocksTaskStore(const RocksTaskStoreConfig& config, Log& log)
    : config_(config),
      log_(log),
      database_(config, log,
                [this] {
                  MutexLock lock(heal_mutex_);
                  heal_wake_.NotifyOne();
                }),
      queues_(config.cached_queues_max),
      batch_(std::make_unique<rocksdb::WriteBatch>()) {}

RocksTaskStore::~RocksTaskStore() {
  {
    MutexLock lock(heal_mutex_);
    stopping_ = true;
  }
  heal_wake_.NotifyOne();
  if (heal_thread_.joinable()) heal_thread_.join();
  // What was relaxed is made durable by a clean stop; and a last record says so, which makes damage
  // to anything before it tell itself apart from a torn tail.
  MutexLock turn(write_turn_);
  if (!database_.Writable().ok()) return;
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return;
  StartBatch();
  if (Write(*db, /*sync=*/true).ok()) {
    StartBatch();
    (void)Write(*db, /*sync=*/true);
  }
}

std::vector<Status> RocksTaskStore::Commit(std::span<const QueueWrite> writes) {
  std::vector<Status> results(writes.size());
  if (writes.empty()) return results;
  const auto refuse_all = [&results](const Status& why) {
    for (Status& result : results) result = why;
  };
  MutexLock turn(write_turn_);
  if (Status writable = database_.Writable(); !writable.ok()) {
    refuse_all(writable);
    return results;
  }
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) {
    refuse_all(db.status());
    return results;
  }
  StartBatch();
  bool any = false;
  bool sync = false;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].keep_owner_state && ChangesMetadata(writes.first(i), writes[i].queue)) {
      // What it is to keep is not stored yet.
      results[i] = Status(StatusCode::kUnavailable, "another write of this queue is under way");
      continue;
    }
    results[i] = AddToBatch(*db, writes[i]);
    if (!results[i].ok()) continue;
    any = true;
    sync = sync || writes[i].durability == Durability::kSynced;
  }
  if (!any) return results;
  if (Status written = Write(*db, sync); !written.ok()) {
    for (Status& result : results) {
      if (result.ok()) result = written;
    }
  }
  queues_.Trim();
  return results;
}

Result<CachedQueue*> RocksTaskStore::FindQueue(const Database::Pin& db,
                                               const PhysicalQueueKey& queue) {
  queue_key_.clear();
  AppendQueueKey(queue, queue_key_);
  if (CachedQueue* cached = queues_.Find(queue_key_); cached != nullptr) return cached;
  BuildKeyPrefix(RowKind::kMetadata, queue_key_, key_);
  const rocksdb::Status read = db->Get(rocksdb::ReadOptions(), key_, &value_);
  if (read.IsNotFound()) return queues_.Insert(queue_key_, RangeId{});
  if (!read.ok()) return FromRocks(read, "cannot read queue metadata");
  Result<QueueMetadata> metadata = DecodeMetadata(key_, value_);
  if (!metadata.ok()) return Named(metadata.status(), queue);
  return queues_.Insert(queue_key_, metadata->range_id);
}

Status RocksTaskStore::AddToBatch(const Database::Pin& db, const QueueWrite& write) {
  MR_RETURN_IF_ERROR(ValidateWrite(write));
  Result<CachedQueue*> found = FindQueue(db, write.queue);
  if (!found.ok()) return found.status();
  CachedQueue& queue = **found;
  if (queue.range_id != write.expected_range_id && !MR_MUTANT(rocks_range_id_not_checked)) {
    return FencedStatus(write.expected_range_id, queue.range_id);
  }
  // A batch in memory takes every row: its only error would be a size beyond 4 GiB.
  const auto put = [this](std::string_view data) MR_REQUIRES(write_turn_) {
    const rocksdb::Slice key(key_);
    const rocksdb::Slice parts[] = {rocksdb::Slice(value_), ToSlice(data)};
    const rocksdb::Status added =
        batch_->Put(rocksdb::SliceParts(&key, 1), rocksdb::SliceParts(parts, 2));
    MR_CHECK(added.ok());
  };
  const auto del = [this]() MR_REQUIRES(write_turn_) { MR_CHECK(batch_->Delete(key_).ok()); };

  if (write.metadata) {
    BuildKeyPrefix(RowKind::kMetadata, queue_key_, key_);
    if (write.keep_owner_state && !MR_MUTANT(rocks_keep_owner_state_ignored)) {
      MR_RETURN_IF_ERROR(EncodeKeepingOwnerState(db, write));
    } else {
      EncodeMetadata(key_, *write.metadata, value_);
    }
    put({});
    queue.range_id = write.metadata->range_id;
  }
  for (const TaskRow& row : write.creates) {
    BuildTaskKey(queue_key_, row.key, key_);
    EncodeTaskHeader(row, value_);
    put(row.payload);
    if (!queue.deleted_through.empty()) queue.ForgetDeletedFrom(row.key);
  }
  for (const TaskKey& task : write.deletes) {
    BuildTaskKey(queue_key_, task, key_);
    del();
  }
  for (const std::string& side : write.side_deletes) {
    BuildSideKey(queue_key_, side, key_);
    del();
  }
  for (const SideRow& row : write.side_puts) {
    BuildSideKey(queue_key_, row.key, key_);
    EncodeSideHeader(value_);
    put(row.value);
  }
  return {};
}

Status RocksTaskStore::EncodeKeepingOwnerState(const Database::Pin& db, const QueueWrite& write) {
  const rocksdb::Status read = db->Get(rocksdb::ReadOptions(), key_, &value_);
  if (!read.ok()) return FromRocks(read, "cannot read queue metadata");
  Result<QueueMetadata> metadata = DecodeMetadata(key_, value_);
  if (!metadata.ok()) return Named(metadata.status(), write.queue);
  metadata->range_id = write.metadata->range_id;
  metadata->update_time = write.metadata->update_time;
  EncodeMetadata(key_, *metadata, value_);
  return {};
}

void RocksTaskStore::StartBatch() {
  batch_->Clear();
  MR_CHECK(batch_->PutLogData(EncodeWalClaim(database_.synced_through)).ok());
}

Status RocksTaskStore::Write(const Database::Pin& db, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync && config_.sync && !MR_MUTANT(rocks_sync_skipped);
  const rocksdb::Status written = db->Write(options, batch_.get());
  if (written.ok()) {
    if (options.sync) database_.synced_through = db->GetLatestSequenceNumber();
    if (batch_->GetDataSize() > kKeptBatchBytesMax) *batch_ = rocksdb::WriteBatch();
    return {};
  }
  queues_.Clear();
  database_.Break(written);
  if (MR_MUTANT(rocks_failed_write_acknowledged)) return {};
  return {StatusCode::kUnknownOutcome, "write may or may not be stored: " + written.ToString()};
}

Result<QueueMetadata> RocksTaskStore::ReadMetadata(const PhysicalQueueKey& queue) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  std::string key;
  BuildKeyPrefix(RowKind::kMetadata, EncodeQueueKey(queue), key);
  std::string value;
  const rocksdb::Status read = (*db)->Get(rocksdb::ReadOptions(), key, &value);
  if (read.IsNotFound()) return Status(StatusCode::kNotFound, "no such queue");
  if (!read.ok()) return FromRocks(read, "cannot read queue metadata");
  Result<QueueMetadata> metadata = DecodeMetadata(key, value);
  if (!metadata.ok()) return Named(metadata.status(), queue);
  return metadata;
}

Result<TaskPage> RocksTaskStore::ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue,
                                           TaskLevel from, TaskLevel through, std::size_t limit,
                                           std::size_t max_bytes) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  TaskPage page;
  if (from > through) return page;
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  const std::string queue_key = EncodeQueueKey(queue);
  std::string first;
  BuildTaskKey(queue_key, {subqueue, from}, first);
  std::string end;
  BuildTaskKey(queue_key, {subqueue, through}, end);
  end.push_back('\0');
  Scan scan(*db, first, end);
  std::size_t bytes = 0;
  for (; scan.iterator->Valid(); scan.iterator->Next()) {
    TaskRow row;
    if (!ParseTaskKey(View(scan.iterator->key()), 1 + queue_key.size(), row.key)) {
      return Named({StatusCode::kCorruption, "damaged task key"}, queue);
    }
    if (page.rows.size() == limit) {
      page.more = true;
      break;
    }
    if (Status decoded = DecodeTask(View(scan.iterator->value()), row); !decoded.ok()) {
      return Named(decoded, queue);
    }
    if (!page.rows.empty() && bytes + row.payload.size() > max_bytes) {
      page.more = true;
      break;
    }
    bytes += row.payload.size();
    page.rows.push_back(std::move(row));
  }
  MR_RETURN_IF_ERROR(FromRocks(scan.iterator->status(), "cannot read tasks"));
  return page;
}

Result<std::optional<std::int64_t>> RocksTaskStore::DeleteTasksThrough(
    const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel through, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  MutexLock turn(write_turn_);
  MR_RETURN_IF_ERROR(database_.Writable());
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  Result<CachedQueue*> found = FindQueue(*db, queue);
  if (!found.ok()) return found.status();
  TaskLevel* deleted_through = (*found)->DeletedThrough(subqueue);
  std::string first;
  BuildTaskKey(queue_key_, {subqueue, *deleted_through}, first);
  std::string end;
  BuildTaskKey(queue_key_, {subqueue, through}, end);
  end.push_back('\0');
  std::int64_t deleted = 0;
  TaskLevel reached = std::max(through, *deleted_through);
  StartBatch();
  {
    Scan scan(*db, first, end);
    for (; scan.iterator->Valid(); scan.iterator->Next()) {
      TaskKey task;
      if (!ParseTaskKey(View(scan.iterator->key()), 1 + queue_key_.size(), task)) {
        return Named({StatusCode::kCorruption, "damaged task key"}, queue);
      }
      MR_CHECK(batch_->Delete(scan.iterator->key()).ok());
      if (static_cast<std::size_t>(++deleted) == limit) {
        reached = task.level;
        break;
      }
    }
    MR_RETURN_IF_ERROR(FromRocks(scan.iterator->status(), "cannot read tasks"));
  }
  if (deleted > 0) MR_RETURN_IF_ERROR(Write(*db, /*sync=*/false));
  *deleted_through = reached;
  queues_.Trim();
  return std::optional(deleted);
}

Result<SidePage> RocksTaskStore::ReadSideRows(const PhysicalQueueKey& queue,
                                              std::string_view prefix, std::string_view after,
                                              std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  const std::string queue_key = EncodeQueueKey(queue);
  std::string all;
  BuildSideKey(queue_key, prefix, all);
  std::string first = all;
  if (after >= prefix) {
    BuildSideKey(queue_key, after, first);
    first.push_back('\0');
  }
  // `first` may lie behind the prefix; then nothing is left, as the empty range says.
  const std::string end = AfterPrefix(all);
  SidePage page;
  if (first >= end) return page;
  Scan scan(*db, first, end);
  for (; scan.iterator->Valid(); scan.iterator->Next()) {
    if (page.rows.size() == limit) {
      page.more = true;
      break;
    }
    SideRow row;
    row.key.assign(View(scan.iterator->key()).substr(1 + queue_key.size()));
    if (Status decoded = DecodeSide(View(scan.iterator->value()), row.value); !decoded.ok()) {
      return Named(decoded, queue);
    }
    page.rows.push_back(std::move(row));
  }
  MR_RETURN_IF_ERROR(FromRocks(scan.iterator->status(), "cannot read side rows"));
  return page;
}

Result<QueuePage> RocksTaskStore::ListQueues(std::string_view page_token, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  Result<std::string> after = DecodePageToken(page_token);
  if (!after.ok()) return after.status();
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  std::string first;
  BuildKeyPrefix(RowKind::kMetadata, *after, first);
  if (!after->empty()) first.push_back('\0');
  std::string kind;
  BuildKeyPrefix(RowKind::kMetadata, {}, kind);
  const std::string end = AfterPrefix(kind);
  Scan scan(*db, first, end);
  QueuePage page;
  std::string last;
  for (; scan.iterator->Valid(); scan.iterator->Next()) {
    const std::string_view key = View(scan.iterator->key());
    if (page.queues.size() == limit) {
      page.next_page_token = EncodePageToken(last);
      break;
    }
    QueueEntry entry;
    std::string_view queue_key = key.substr(1);
    last.assign(queue_key);
    if (!TakeQueueKey(queue_key, entry.key) || !queue_key.empty()) {
      log_.Write(LogLevel::kError, "store", "row left out of a list: its key is damaged", {});
      continue;
    }
    Result<QueueMetadata> metadata = DecodeMetadata(key, View(scan.iterator->value()));
    if (!metadata.ok()) {
      // One bad row must not hide the others.
      log_.Write(LogLevel::kError, "store", "queue left out of a list: its metadata is damaged",
                 {{"queue", entry.key.persistence_name}});
      continue;
    }
    entry.metadata = std::move(*metadata);
    page.queues.push_back(std::move(entry));
  }
  MR_RETURN_IF_ERROR(FromRocks(scan.iterator->status(), "cannot list queues"));
  return page;
}

Status RocksTaskStore::DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MutexLock turn(write_turn_);
  MR_RETURN_IF_ERROR(database_.Writable());
  Result<Database::Pin> db = database_.Use();
  if (!db.ok()) return db.status();
  Result<CachedQueue*> found = FindQueue(*db, queue);
  if (!found.ok()) return found.status();
  CachedQueue& cached = **found;
  if (cached.range_id.value == 0) return {StatusCode::kNotFound, "no such queue"};
  if (cached.range_id != expected_range_id) {
    return FencedStatus(expected_range_id, cached.range_id);
  }
  StartBatch();
  BuildKeyPrefix(RowKind::kMetadata, queue_key_, key_);
  MR_CHECK(batch_->Delete(key_).ok());
  for (const RowKind kind : {RowKind::kTask, RowKind::kSide}) {
    BuildKeyPrefix(kind, queue_key_, key_);
    MR_RETURN_IF_ERROR(DeleteRows(*db, key_));
  }
  MR_RETURN_IF_ERROR(Write(*db, /*sync=*/true));
  cached = CachedQueue{};
  queues_.Trim();
  return {};
}

Status RocksTaskStore::DeleteRows(const Database::Pin& db, std::string_view prefix) {
  const std::string end = AfterPrefix(prefix);
  batch_->SetSavePoint();
  Scan scan(db, prefix, end);
  for (int deleted = 0; scan.iterator->Valid(); scan.iterator->Next()) {
    if (++deleted > kPointDeletesMax) {
      MR_CHECK(batch_->RollbackToSavePoint().ok());
      MR_CHECK(batch_->DeleteRange(ToSlice(prefix), end).ok());
      return {};
    }
    MR_CHECK(batch_->Delete(scan.iterator->key()).ok());
  }
  MR_CHECK(batch_->PopSavePoint().ok());
  return FromRocks(scan.iterator->status(), "cannot read the rows of a queue");
}

Status RocksTaskStore::Health() {
  return MR_MUTANT(rocks_health_serving_when_broken) ? OkStatus() : database_.Writable();
}

Status RocksTaskStore::TryHeal() {
  MutexLock turn(write_turn_);
  if (database_.Writable().ok()) return {};
  if (MR_MUTANT(rocks_never_heals)) return database_.Writable();
  queues_.Clear();
  return database_.Reopen();
}

void RocksTaskStore::HealLoop() {
  for (;;) {
    {
      MutexLock lock(heal_mutex_);
      while (!stopping_ && database_.Writable().ok()) heal_wake_.Wait(heal_mutex_);
      if (!stopping_) heal_wake_.WaitFor(heal_mutex_, config_.heal_retry);
      if (stopping_) return;
    }
    (void)TryHeal();
  }
}

}  // namespace millrace::store
