#include "millrace/backlog/subqueue_backlog.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/core/expiry.h"

namespace millrace::backlog {

using Counting = core::AckManager::Counting;

SubqueueBacklog::SubqueueBacklog(const store::PhysicalQueueKey& key, store::Subqueue subqueue,
                                 const BacklogConfig& config, exec::Strand& strand,
                                 store::AsyncTaskStore& store, exec::Gate& gate, Random& random,
                                 Owner& owner, BacklogMetrics& metrics)
    : subqueue_(subqueue),
      config_(config),
      strand_(strand),
      owner_(owner),
      metrics_(metrics),
      reader_(key, subqueue, config, strand, store, gate, random, *this, metrics),
      gc_(key, subqueue, config, strand, store, gate, metrics) {}

void SubqueueBacklog::Begin(store::TaskLevel ack_level, TaskId max_read_level) {
  strand_.AssertCurrent();
  acks_.Begin(ack_level);
  max_read_level_ = max_read_level;
}

void SubqueueBacklog::BeginReading() { reader_.Begin(); }

void SubqueueBacklog::RaiseTo(TaskId id) {
  strand_.AssertCurrent();
  RaiseMaxRead(id);
}

void SubqueueBacklog::Stop() {
  reader_.Stop();
  gc_.Stop();
}

void SubqueueBacklog::RaiseMaxRead(TaskId tail) {
  MR_CHECK(tail >= max_read_level_);
  max_read_level_ = tail;
}

void SubqueueBacklog::OnWritten(TaskId tail, std::vector<store::TaskRow>& rows) {
  strand_.AssertCurrent();
  const bool at_tail =
      reader_.resting() && !read_limit_ && acks_.read_level().id == max_read_level_;
  RaiseMaxRead(tail);
  if (at_tail) {
    const WallTime now = strand_.clock().WallNow();
    for (store::TaskRow& row : rows) {
      if (row.key.subqueue != subqueue_) continue;
      const std::size_t held = buffer_.size() + expired_rows_;
      const bool full = held >= config_.page_size || buffer_.bytes() >= config_.page_bytes_max;
      if (full && !MR_MUTANT(buffer_bound_ignored)) break;
      LoadRow(row, now);
    }
  }
  reader_.Wake();
}

void SubqueueBacklog::OnNotWritten(TaskId tail) {
  strand_.AssertCurrent();
  RaiseMaxRead(tail);
  reader_.Wake();
}

void SubqueueBacklog::OnUndecided(TaskId tail) {
  strand_.AssertCurrent();
  MR_CHECK(!read_limit_);
  if (!MR_MUTANT(undecided_ids_readable)) read_limit_ = max_read_level_;
  RaiseMaxRead(tail);
}

void SubqueueBacklog::OnDecided() {
  strand_.AssertCurrent();
  read_limit_.reset();
  reader_.Wake();
}

store::TaskLevel SubqueueBacklog::ReadLevel() const {
  strand_.AssertCurrent();
  return acks_.read_level();
}

TaskId SubqueueBacklog::ReadableThrough() const {
  strand_.AssertCurrent();
  return read_limit_.value_or(max_read_level_);
}

TaskReader::Room SubqueueBacklog::RoomLeft() const {
  strand_.AssertCurrent();
  const std::size_t rows = buffer_.size() + expired_rows_;
  const std::size_t bytes = buffer_.bytes();
  // Below half of both: so that a page is worth its read.
  if (rows > 0 && (rows * 2 >= config_.page_size || bytes * 2 >= config_.page_bytes_max)) return {};
  return {config_.page_size - rows, config_.page_bytes_max - bytes};
}

void SubqueueBacklog::LoadRow(store::TaskRow& row, WallTime now) {
  const store::TaskLevel level = row.key.level;
  if (level <= acks_.read_level()) return;
  if (!adopted_.empty() && LoadAdopted(row)) return;
  if (core::IsExpired(row.expiry_time, now)) {
    metrics_.dropped_expired_at_read.Increment();
    if (MR_MUTANT(expired_page_not_acked)) return;
    if (config_.delete_on_finish) {
      acks_.Add(level, row.create_time);
      ++expired_rows_;
      return owner_.DeleteExpired(row.key);
    }
    const store::TaskLevel before = acks_.ack_level();
    return ReportAck(before, acks_.AddFinished(level, Counting::kDropped), false);
  }
  acks_.Add(level, row.create_time);
  if (owner_.KeepRow(row)) return;
  buffer_.PushBack({row.key, row.create_time, row.expiry_time, std::move(row.payload)});
}

bool SubqueueBacklog::LoadAdopted(const store::TaskRow& row) {
  const auto it = adopted_.find(row.key.level);
  if (it == adopted_.end() || MR_MUTANT(remembered_lease_handed_out)) return false;
  const Adopted state = it->second;
  adopted_.erase(it);
  if (state == Adopted::kEnded) {
    const store::TaskLevel before = acks_.ack_level();
    ReportAck(before, acks_.AddFinished(row.key.level, Counting::kNone), config_.delete_on_finish);
    return true;
  }
  acks_.Add(row.key.level, row.create_time);
  if (state == Adopted::kEnding) MR_CHECK(acks_.BeginEnd(row.key.level));
  return true;
}

void SubqueueBacklog::OnRowsRead(std::vector<store::TaskRow> rows, store::TaskLevel through) {
  strand_.AssertCurrent();
  const WallTime now = strand_.clock().WallNow();
  for (store::TaskRow& row : rows) LoadRow(row, now);
  adopted_.erase(adopted_.begin(), adopted_.upper_bound(through));
  if (through > acks_.read_level()) {
    const store::TaskLevel before = acks_.ack_level();
    ReportAck(before, acks_.AdvanceRead(through), false);
  }
  owner_.OnRowsLoaded(subqueue_);
}

void SubqueueBacklog::OnLeaseLost(const Status& status) { owner_.OnReadFenced(status); }

void SubqueueBacklog::OnDamaged(const Status& status) { owner_.OnReadDamaged(status); }

void SubqueueBacklog::ReportAck(store::TaskLevel before, const core::Acked& acked, bool stored) {
  if (acks_.ack_level() != before) owner_.OnAckMoved(subqueue_, acked, stored);
}

void SubqueueBacklog::Adopt(store::TaskLevel level) {
  strand_.AssertCurrent();
  MR_CHECK(level > acks_.read_level());
  adopted_.emplace(level, Adopted::kHeld);
}

bool SubqueueBacklog::BeginEnd(store::TaskLevel level) {
  strand_.AssertCurrent();
  const auto it = adopted_.find(level);
  if (it == adopted_.end()) return acks_.BeginEnd(level);
  if (it->second != Adopted::kHeld) return false;
  it->second = Adopted::kEnding;
  return true;
}

void SubqueueBacklog::CancelEnd(store::TaskLevel level) {
  strand_.AssertCurrent();
  const auto it = adopted_.find(level);
  if (it == adopted_.end()) return acks_.CancelEnd(level);
  it->second = Adopted::kHeld;
}

void SubqueueBacklog::FinishStored(store::TaskLevel level) {
  strand_.AssertCurrent();
  if (const auto it = adopted_.find(level); it != adopted_.end()) {
    // Kept until the reader is past it: a page that is on its way may still hold the row.
    it->second = Adopted::kEnded;
    return;
  }
  const store::TaskLevel before = acks_.ack_level();
  core::Acked acked;
  if (!acks_.Finish(level, Counting::kNone, &acked)) return;
  if (!buffer_.empty() && buffer_.front().key.level <= level) buffer_.Remove(level);
  ReportAck(before, acked, config_.delete_on_finish);
}

bool SubqueueBacklog::FinishInMemory(store::TaskLevel level) {
  strand_.AssertCurrent();
  const store::TaskLevel before = acks_.ack_level();
  core::Acked acked;
  if (!acks_.Finish(level, Counting::kDone, &acked)) return false;
  if (!buffer_.empty() && buffer_.front().key.level <= level) buffer_.Remove(level);
  ReportAck(before, acked, false);
  return true;
}

void SubqueueBacklog::OnExpiredDeleted(std::size_t rows) {
  strand_.AssertCurrent();
  MR_CHECK(rows <= expired_rows_);
  expired_rows_ -= rows;
  reader_.Wake();
}

void SubqueueBacklog::DropInMemory(const LoadedTask& task) {
  metrics_.dropped_expired_in_memory.Increment();
  if (config_.delete_on_finish) {
    ++expired_rows_;
    return owner_.DeleteExpired(task.key);
  }
  const store::TaskLevel before = acks_.ack_level();
  core::Acked acked;
  if (acks_.Finish(task.key.level, Counting::kDropped, &acked)) ReportAck(before, acked, false);
}

void SubqueueBacklog::Take(std::size_t max, std::vector<LoadedTask>& out) {
  strand_.AssertCurrent();
  if (buffer_.empty()) return;
  const WallTime now = strand_.clock().WallNow();
  while (out.size() < max && !buffer_.empty()) {
    LoadedTask task = buffer_.PopFront();
    if (core::IsExpired(task.expiry_time, now)) {
      DropInMemory(task);
    } else {
      out.push_back(std::move(task));
    }
  }
  if (MR_MUTANT(reader_sleeps_when_full)) return;
  reader_.Wake();
}

void SubqueueBacklog::PutBack(LoadedTask task) {
  strand_.AssertCurrent();
  if (acks_.IsOutstanding(task.key.level)) buffer_.Insert(std::move(task));
}

void SubqueueBacklog::DropExpired(WallTime now) {
  strand_.AssertCurrent();
  if (buffer_.empty()) return;
  std::vector<LoadedTask> live;
  while (!buffer_.empty()) {
    LoadedTask task = buffer_.PopFront();
    if (core::IsExpired(task.expiry_time, now)) {
      DropInMemory(task);
    } else {
      live.push_back(std::move(task));
    }
  }
  for (LoadedTask& task : live) buffer_.PushBack(std::move(task));
  reader_.Wake();
}

bool SubqueueBacklog::HasLive(WallTime now) const {
  strand_.AssertCurrent();
  return std::any_of(buffer_.begin(), buffer_.end(), [now](const LoadedTask& task) {
    return !core::IsExpired(task.expiry_time, now);
  });
}

void SubqueueBacklog::CollectGarbage() {
  strand_.AssertCurrent();
  if (config_.delete_on_finish) return;
  gc_.MaybeRun(MR_MUTANT(gc_deletes_above_ack_level) ? acks_.read_level() : acks_.ack_level());
}

bool SubqueueBacklog::HasGarbage() const {
  strand_.AssertCurrent();
  return !config_.delete_on_finish && gc_.Behind(acks_.ack_level());
}

void SubqueueBacklog::CollectAtStop(Instant deadline, Closure done) {
  strand_.AssertCurrent();
  gc_.RunAtStop(acks_.ack_level(), deadline, std::move(done));
}

bool SubqueueBacklog::Drained() const {
  strand_.AssertCurrent();
  return !read_limit_ && acks_.outstanding() == 0 && acks_.ack_level().id == max_read_level_;
}

bool SubqueueBacklog::Idle() const {
  strand_.AssertCurrent();
  return acks_.outstanding() == 0 && adopted_.empty() && acks_.read_level().id == max_read_level_ &&
         !read_limit_ && !reader_.reading() && !gc_.running();
}

}  // namespace millrace::backlog
