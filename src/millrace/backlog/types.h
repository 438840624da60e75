#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backlog/owner_state.h"
#include "millrace/base/function.h"
#include "millrace/base/ids.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/store/task_store.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

// Why an owner gives a queue up.
enum class UnloadCause : std::uint8_t {
  kInitError,   // The lease could not be taken for a reason that retrying does not cure.
  kConflict,    // Another owner took the range id.
  kOtherError,  // A task could neither be started nor rewritten, or stored bytes of the queue are
                // damaged.
  kIdle,
  kShuttingDown,
  kForced,  // An operator or test asked.
};
std::string_view UnloadCauseName(UnloadCause cause);

struct NewTask {
  store::Subqueue subqueue = 0;
  WallTime create_time;
  WallTime expiry_time;  // Not set = never.
  std::string payload;
};

struct WriteOutcome {
  Status status;
  // Keys of the created rows in the order given; filled in when the status is ok.
  std::vector<store::TaskKey> created;
};

// One change that must happen as a whole. Several waiting changes share a conditional write; each
// is told the outcome of that write.
struct WriteOp {
  std::vector<NewTask> creates;
  // True: `creates` are newly accepted tasks; they count as accepted, and are refused with
  // kResourceExhausted when too many rows wait already. False: they replace tasks that end in this
  // op (a rewrite), and are never refused.
  bool accepts = true;

  // Tasks handed out by TakeLoaded or claimed in OnTaskLoaded that end with this op. Their rows are
  // deleted in the same write and their ids marked done once it is applied. Counted as `ends_as`,
  // except as many as are rewritten. When one of them is not outstanding, or another op ends it
  // already, the op is refused with kNotFound.
  std::vector<store::TaskKey> ends;
  Total ends_as = Total::kDone;

  std::vector<store::SideRow> side_puts;
  std::vector<std::string> side_deletes;

  // Once, on the strand, never inside the call. On kUnknownOutcome the change may or may not be in
  // the store; `decided` tells which when that is known. Any other error: surely not applied.
  UniqueFunction<void(WriteOutcome)> done;
  // After a kUnknownOutcome: runs once on the strand when a new lease has fenced the write and the
  // store was read again. Rows created by an applied write come in through the reader. Never runs
  // if the queue is unloaded before.
  UniqueFunction<void(bool applied)> decided;
};

struct LoadedTask {
  store::TaskKey key;
  WallTime create_time;
  WallTime expiry_time;
  std::string payload;
};

struct TaskIdBlockView {
  TaskId start;  // Inclusive.
  TaskId end;    // Inclusive.
};

struct BacklogStatus {
  store::TaskLevel read_level;
  store::TaskLevel ack_level;
  std::int64_t approximate_count = 0;
  TaskIdBlockView task_id_block;  // Of the current range id.
};

struct InternalSubqueueStatus {
  store::TaskLevel read_level;
  store::TaskLevel ack_level;
  TaskIdBlockView task_id_block;  // As the writer uses it now: start is the next id it gives.
  std::int64_t loaded_tasks = 0;
  TaskId max_read_level;
  std::int64_t approximate_count = 0;
};

// What a backlog tells the object that owns it. All calls on the strand, never inside a call into
// the manager.
class BacklogListener {
 public:
  virtual ~BacklogListener() = default;

  // The lease is held; nothing is read until BeginReading is called, so that the owner can first
  // load side rows.
  virtual void OnLeaseHeld() = 0;

  // A row came in from the store for the first time (not one that TakeLoaded could have given out
  // before). True = the owner keeps it (its lease is remembered, say): it is not given out by
  // TakeLoaded, and must end by CompleteTask or a WriteOp like any other, or be given back by
  // PutBack. Rows written by this owner come in before their op is told.
  virtual bool OnTaskLoaded(const store::TaskRow& row) = 0;

  // TakeLoaded would return something now.
  virtual void OnTasksAvailable() = 0;

  // With delete_on_finish: the rows of these tasks are gone by a write that is certain, ended by an
  // op or dropped by the engine itself as expired. Before the op's own `done`.
  virtual void OnTasksEnded(const std::vector<store::TaskKey>& /*tasks*/) {}

  // A conditional write is about to be sent: side rows may be added to it. Everything added must be
  // right to repeat.
  virtual void OnBuildWrite(store::QueueWrite& write) = 0;
  // The outcome of the write of the last OnBuildWrite, once it is certain; in order.
  virtual void OnWriteEnd(bool applied) = 0;

  // Unload this queue. At most once in the manager's life; the owner answers with Stop.
  virtual void OnUnloadRequested(UnloadCause cause, const Status& status) = 0;
};

}  // namespace millrace::backlog
