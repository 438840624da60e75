#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/queue/lease_table.h"
#include "millrace/store/task_store.h"

namespace millrace::queue {

// One lease as the journal stores it.
struct LeaseRecord {
  store::TaskKey task;
  RangeId epoch;
  std::uint64_t counter = 0;
  WallTime deadline;
  Duration duration{};
  std::string worker_id;

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

std::string EncodeLeaseChunk(const std::vector<LeaseRecord>& records);
// kCorruption when the bytes are not a chunk this version knows.
Result<std::vector<LeaseRecord>> DecodeLeaseChunk(std::string_view bytes);

inline constexpr char kLeaseChunkKind = 'L';
std::string LeaseChunkKey(std::uint64_t chunk);
// Zero when the key is not one of a chunk.
std::uint64_t ParseLeaseChunkKey(std::string_view key);

// Remembers leases across a restart without a sync of its own: leases given or extended since the
// last conditional write of the queue go into it as one row, a chunk; so the cost is a row per
// write, not per task. A lease that ended before that is never written. A chunk is deleted, again
// by the next write, when none of its leases lives in it any more.
//
// What a crash can cost: leases given since the last write; their tasks are handed out again, as at
// any lost lease.
//
// Pure. Bounds: a chunk per write, while one of its leases lives; a lease lives in one chunk only.
// Invariants: of two chunks that name one task, the one with the higher number is newer.
class LeaseJournal {
 public:
  // The lease is new or its deadline changed.
  void Remember(Lease& lease);
  // The lease ends; call before it leaves the table.
  void Forget(Lease& lease);

  // Something waits for the next write.
  [[nodiscard]] bool dirty() const { return !pending_.empty() || !obsolete_.empty(); }

  // Adds this journal's rows to a write that is about to be sent; one write at a time.
  void BuildWrite(LeaseTable& table, Instant now, WallTime wall_now, store::QueueWrite& write);
  void WriteEnded(LeaseTable& table, bool applied);

  // Recovery: takes one stored chunk, in ascending order of their numbers. The result of all is in
  // TakeRecovered(). kCorruption when number or bytes are not a chunk's.
  Status Load(std::uint64_t chunk, std::string_view bytes);
  struct Recovered {
    LeaseRecord record;
    std::uint64_t chunk = 0;
  };
  // Newest form of each lease, by task. Each must be answered by Adopt or Discard.
  [[nodiscard]] std::map<TaskId, Recovered> TakeRecovered();
  void Adopt(Lease& lease, std::uint64_t chunk);
  // Ends recovery: chunks in which no lease was adopted are deleted with the next write.
  void FinishRecovery();

 private:
  void Leave(Lease& lease);

  std::vector<TaskId> pending_;
  std::map<std::uint64_t, std::size_t> live_;  // Leases whose newest form is in this chunk.
  std::vector<std::uint64_t> obsolete_;        // Chunks to delete.
  std::uint64_t last_chunk_ = 0;

  // The write in flight.
  std::uint64_t writing_chunk_ = 0;  // 0 = it has no chunk.
  std::vector<TaskId> writing_leases_;
  std::vector<std::uint64_t> writing_obsolete_;

  std::map<TaskId, Recovered> recovered_;
};

}  // namespace millrace::queue
