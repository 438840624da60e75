#include "millrace/queue/lease_journal.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/queue/bytes.h"

namespace millrace::queue {
namespace {

constexpr std::uint8_t kChunkVersion = 1;
constexpr Duration kDurationMax = std::chrono::hours(24 * 365 * 100);

// What a lease can have been; other numbers would not survive arithmetic on them.
bool IsPossible(const LeaseRecord& record) {
  return record.task.subqueue >= 0 && record.task.level.id.value > 0 && record.epoch.value > 0 &&
         record.deadline.ns >= 0 && record.duration > Duration::zero() &&
         record.duration <= kDurationMax;
}

}  // namespace

std::string EncodeLeaseChunk(const std::vector<LeaseRecord>& records) {
  std::string out;
  out.reserve(2 + records.size() * 32);
  out.push_back(static_cast<char>(kChunkVersion));
  for (const LeaseRecord& record : records) {
    AppendVarint(out, static_cast<std::uint64_t>(record.task.subqueue));
    AppendVarint(out, static_cast<std::uint64_t>(record.task.level.pass));
    AppendVarint(out, static_cast<std::uint64_t>(record.task.level.id.value));
    AppendVarint(out, static_cast<std::uint64_t>(record.epoch.value));
    AppendVarint(out, record.counter);
    AppendVarint(out, static_cast<std::uint64_t>(record.deadline.ns));
    AppendVarint(out, static_cast<std::uint64_t>(record.duration.count()));
    AppendSized(out, record.worker_id);
  }
  return out;
}

Result<std::vector<LeaseRecord>> DecodeLeaseChunk(std::string_view bytes) {
  const Status damaged(StatusCode::kCorruption, "lease chunk does not parse");
  ByteReader reader(bytes);
  std::uint8_t version = 0;
  if (!reader.Byte(&version) || version != kChunkVersion) return damaged;
  std::vector<LeaseRecord> records;
  while (!reader.done()) {
    std::uint64_t n[7];
    for (std::uint64_t& value : n) {
      if (!reader.Varint(&value)) return damaged;
    }
    std::string_view worker;
    if (!reader.Sized(&worker)) return damaged;
    LeaseRecord record;
    record.task.subqueue = static_cast<store::Subqueue>(n[0]);
    // A wider number than a subqueue's.
    if (static_cast<std::uint64_t>(record.task.subqueue) != n[0]) return damaged;
    record.task.level.pass = static_cast<std::int64_t>(n[1]);
    record.task.level.id.value = static_cast<std::int64_t>(n[2]);
    record.epoch.value = static_cast<std::int64_t>(n[3]);
    record.counter = n[4];
    record.deadline.ns = static_cast<std::int64_t>(n[5]);
    record.duration = Duration(static_cast<std::int64_t>(n[6]));
    record.worker_id = worker;
    if (!IsPossible(record)) return damaged;
    records.push_back(std::move(record));
  }
  return records;
}

std::string LeaseChunkKey(std::uint64_t chunk) {
  std::string key(1, kLeaseChunkKind);
  AppendFixed64(key, chunk);
  return key;
}

std::uint64_t ParseLeaseChunkKey(std::string_view key) {
  if (key.size() != 9 || key.front() != kLeaseChunkKind) return 0;
  ByteReader reader(key.substr(1));
  std::uint64_t chunk = 0;
  reader.Fixed64(&chunk);
  return chunk;
}

void LeaseJournal::Remember(Lease& lease) {
  if (lease.journal_pending) return;
  lease.journal_pending = true;
  pending_.push_back(lease.task.level.id);
}

void LeaseJournal::Forget(Lease& lease) {
  // Its entry in pending_ finds no such lease later and is skipped; task ids are never used twice.
  Leave(lease);
}

void LeaseJournal::Leave(Lease& lease) {
  if (lease.chunk == 0) return;
  const auto it = live_.find(lease.chunk);
  MR_CHECK(it != live_.end() && it->second > 0);
  if (--it->second == 0 && it->first != writing_chunk_) {
    obsolete_.push_back(it->first);
    live_.erase(it);
  }
  lease.chunk = 0;
}

void LeaseJournal::BuildWrite(LeaseTable& table, Instant now, WallTime wall_now,
                              store::QueueWrite& write) {
  MR_CHECK(writing_chunk_ == 0 && writing_leases_.empty() && writing_obsolete_.empty());
  std::vector<LeaseRecord> records;
  for (const TaskId task : std::exchange(pending_, {})) {
    Lease* lease = table.Find(task);
    if (lease == nullptr || !lease->journal_pending) continue;
    lease->journal_pending = false;
    // One that is ending most likely ends with this very write; if it does not, it is remembered
    // again then.
    if (lease->state != LeaseState::kActive) continue;
    records.push_back({.task = lease->task,
                       .epoch = lease->epoch,
                       .counter = lease->counter,
                       .deadline = wall_now + std::max(Duration::zero(), lease->deadline - now),
                       .duration = lease->duration,
                       .worker_id = lease->worker_id});
    writing_leases_.push_back(task);
  }
  if (!records.empty()) {
    writing_chunk_ = ++last_chunk_;
    live_[writing_chunk_] = 0;
    for (const TaskId task : writing_leases_) {
      Lease* lease = table.Find(task);
      Leave(*lease);
      lease->chunk = writing_chunk_;
      ++live_[writing_chunk_];
    }
    write.side_puts.push_back({LeaseChunkKey(writing_chunk_), EncodeLeaseChunk(records)});
  }
  writing_obsolete_ = std::exchange(obsolete_, {});
  for (const std::uint64_t chunk : writing_obsolete_)
    write.side_deletes.push_back(LeaseChunkKey(chunk));
}

void LeaseJournal::WriteEnded(LeaseTable& table, bool applied) {
  const std::uint64_t chunk = std::exchange(writing_chunk_, 0);
  const std::vector<TaskId> leases = std::exchange(writing_leases_, {});
  const std::vector<std::uint64_t> deleted = std::exchange(writing_obsolete_, {});
  if (!applied) {
    obsolete_.insert(obsolete_.end(), deleted.begin(), deleted.end());
    for (const TaskId task : leases) {
      Lease* lease = table.Find(task);
      if (lease == nullptr || lease->chunk != chunk) continue;
      lease->chunk = 0;
      Remember(*lease);
    }
    if (chunk != 0) live_.erase(chunk);
    return;
  }
  if (chunk == 0) return;
  const auto it = live_.find(chunk);
  if (it != live_.end() && it->second == 0) {
    obsolete_.push_back(chunk);
    live_.erase(it);
  }
}

Status LeaseJournal::Load(std::uint64_t chunk, std::string_view bytes) {
  Result<std::vector<LeaseRecord>> records = DecodeLeaseChunk(bytes);
  MR_RETURN_IF_ERROR(records.status());
  if (chunk <= last_chunk_ || chunk == std::numeric_limits<std::uint64_t>::max()) {
    return {StatusCode::kCorruption, "a lease chunk's key is not one this queue can have written"};
  }
  last_chunk_ = chunk;
  live_[chunk] = 0;
  for (LeaseRecord& record : *records) {
    const TaskId task = record.task.level.id;
    recovered_.insert_or_assign(task, Recovered{std::move(record), chunk});
  }
  return OkStatus();
}

std::map<TaskId, LeaseJournal::Recovered> LeaseJournal::TakeRecovered() {
  return std::exchange(recovered_, {});
}

void LeaseJournal::Adopt(Lease& lease, std::uint64_t chunk) {
  lease.chunk = chunk;
  ++live_.at(chunk);
}

void LeaseJournal::FinishRecovery() {
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second == 0) {
      obsolete_.push_back(it->first);
      it = live_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace millrace::queue
