#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/loaded_buffer.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/task_gc.h"
#include "millrace/backlog/task_reader.h"
#include "millrace/backlog/types.h"
#include "millrace/base/annotations.h"
#include "millrace/base/random.h"
#include "millrace/core/ack_manager.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::backlog {

// One subqueue of a loaded backlog: its levels, the tasks in memory, its reader and its deletion.
//
// Rows come in by the reader, or, when everything before them is in memory already, straight from
// the write that stored them.
//
// Thread: its strand.
// Bounds: reading starts when less than half of page_size and page_bytes_max is held, and goes up
// to them; rows on their way to be dropped count as held. Invariants: ack level <= read level <=
// max read level. Nothing above the read limit is read, so nothing above it is acked either.
class SubqueueBacklog final : private TaskReader::Host {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // See BacklogListener::OnTaskLoaded.
    virtual bool KeepRow(const store::TaskRow& row) = 0;
    // A row expired and is to be deleted by a write that ends it (delete_on_finish only).
    virtual void DeleteExpired(const store::TaskKey& key) = 0;
    // The ack level moved. `stored` = by a write that carried what it settled.
    virtual void OnAckMoved(store::Subqueue subqueue, const core::Acked& acked, bool stored) = 0;
    // Rows came in by a read; the reader may go on afterwards.
    virtual void OnRowsLoaded(store::Subqueue subqueue) = 0;
    virtual void OnReadFenced(const Status& status) = 0;
    virtual void OnReadDamaged(const Status& status) = 0;
  };

  SubqueueBacklog(const store::PhysicalQueueKey& key, store::Subqueue subqueue,
                  const BacklogConfig& config, exec::Strand& strand, store::AsyncTaskStore& store,
                  exec::Gate& gate, Random& random, Owner& owner, BacklogMetrics& metrics);

  // The lease is held. Once.
  void Begin(store::TaskLevel ack_level, TaskId max_read_level);
  // An earlier owner may have used ids up to `id`.
  void RaiseTo(TaskId id);
  void BeginReading();
  void Stop();

  // A write stored `rows` (of all subqueues), this one's up to `tail`. Takes payloads out of rows
  // it can use at once.
  void OnWritten(TaskId tail, std::vector<store::TaskRow>& rows);
  // A write surely failed; its ids are used up.
  void OnNotWritten(TaskId tail);
  // The outcome is unknown: nothing above what was known before may be read.
  void OnUndecided(TaskId tail);
  void OnDecided();

  // The owner holds this task already, though the reader has not come to its row yet. Before
  // BeginReading.
  void Adopt(store::TaskLevel level);

  bool BeginEnd(store::TaskLevel level);
  void CancelEnd(store::TaskLevel level);
  // A write deleted the task's row.
  void FinishStored(store::TaskLevel level);
  // The task is finished in memory; its row goes by deletion. False when it was not outstanding.
  bool FinishInMemory(store::TaskLevel level);
  // A row passed to DeleteExpired is gone.
  void OnExpiredDeleted(std::size_t rows);

  void Take(std::size_t max, std::vector<LoadedTask>& out);
  void PutBack(LoadedTask task);
  [[nodiscard]] bool HasLive(WallTime now) const;
  // Drops what has expired in the buffer, and lets the reader go on where that made room.
  void DropExpired(WallTime now);

  void CollectGarbage();
  // There may be finished rows to delete.
  [[nodiscard]] bool HasGarbage() const;
  void CollectAtStop(Instant deadline, Closure done);

  [[nodiscard]] const core::AckManager& acks() const MR_NO_THREAD_SAFETY_ANALYSIS {
    strand_.AssertCurrent();
    return acks_;
  }
  [[nodiscard]] TaskId max_read_level() const {
    strand_.AssertCurrent();
    return max_read_level_;
  }
  [[nodiscard]] const LoadedBuffer& buffer() const MR_NO_THREAD_SAFETY_ANALYSIS {
    strand_.AssertCurrent();
    return buffer_;
  }
  // Everything that may be stored was read and is finished.
  [[nodiscard]] bool Drained() const;
  // Nothing in hand, in flight or left to read.
  [[nodiscard]] bool Idle() const;

 private:
  enum class Adopted : std::uint8_t { kHeld, kEnding, kEnded };

  [[nodiscard]] store::TaskLevel ReadLevel() const override;
  [[nodiscard]] TaskId ReadableThrough() const override;
  [[nodiscard]] TaskReader::Room RoomLeft() const override;
  void OnRowsRead(std::vector<store::TaskRow> rows, store::TaskLevel through) override;
  void OnLeaseLost(const Status& status) override;
  void OnDamaged(const Status& status) override;

  void LoadRow(store::TaskRow& row, WallTime now) MR_REQUIRES(strand_);
  // Takes in a row the owner holds, or held: it may have ended while its page was on the way. False
  // for any other row.
  bool LoadAdopted(const store::TaskRow& row) MR_REQUIRES(strand_);
  void RaiseMaxRead(TaskId tail) MR_REQUIRES(strand_);
  void DropInMemory(const LoadedTask& task) MR_REQUIRES(strand_);
  void ReportAck(store::TaskLevel before, const core::Acked& acked, bool stored)
      MR_REQUIRES(strand_);

  const store::Subqueue subqueue_;
  const BacklogConfig& config_;
  exec::Strand& strand_;
  Owner& owner_;
  BacklogMetrics& metrics_;

  core::AckManager acks_ MR_GUARDED_BY(strand_);
  LoadedBuffer buffer_ MR_GUARDED_BY(strand_);
  // Adopted tasks above the read level.
  std::map<store::TaskLevel, Adopted> adopted_ MR_GUARDED_BY(strand_);
  TaskId max_read_level_ MR_GUARDED_BY(strand_){-1};
  std::optional<TaskId> read_limit_ MR_GUARDED_BY(strand_);
  std::size_t expired_rows_ MR_GUARDED_BY(strand_) =
      0;  // Passed to DeleteExpired and still stored.
  TaskReader reader_;
  TaskGc gc_;
};

}  // namespace millrace::backlog
