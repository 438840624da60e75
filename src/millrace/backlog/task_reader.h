#pragma once

#include <cstddef>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/metrics.h"
#include "millrace/base/annotations.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/core/read_planner.h"
#include "millrace/core/retry_policy.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::backlog {

// Brings the rows of one subqueue into memory, in level order, as long as there is room.
//
//   kNotBegun --Begin--> kIdle --Wake, something to read, room--> kReading --rows, or a gap-->
//   kIdle (and on)
//                          ^                                         |--ten gaps in a row-->
//                          kYielded --> kIdle
//                          `------------- timer ---- kWaiting <------'  store error
//   Any state --Stop--> kStopped.
//
// Thread: its strand.
// Bounds: one read in flight, of as many rows and bytes as the host has room for.
// Fails: throttled reads wait throttled_read_wait, others back off, for ever.
// Invariants: whoever raises the limit, makes room or moves levels calls Wake; so the reader never
// rests while there is something to read and room for it.
class TaskReader {
 public:
  struct Room {
    std::size_t rows = 0;  // 0 = do not read now.
    std::size_t bytes = 0;
  };

  class Host {
   public:
    virtual ~Host() = default;
    [[nodiscard]] virtual store::TaskLevel ReadLevel() const = 0;
    // Highest id that may be read now.
    [[nodiscard]] virtual TaskId ReadableThrough() const = 0;
    [[nodiscard]] virtual Room RoomLeft() const = 0;
    // All rows above the read level through `through`.
    virtual void OnRowsRead(std::vector<store::TaskRow> rows, store::TaskLevel through) = 0;
    virtual void OnLeaseLost(const Status& status) = 0;
    virtual void OnDamaged(const Status& status) = 0;
  };

  TaskReader(const store::PhysicalQueueKey& key, store::Subqueue subqueue,
             const BacklogConfig& config, exec::Strand& strand, store::AsyncTaskStore& store,
             exec::Gate& gate, Random& random, Host& host, BacklogMetrics& metrics);

  void Begin();
  void Wake();
  void Stop();

  // Begun, and no read under way or put off: rows just written may be handed over without a read.
  [[nodiscard]] bool resting() const {
    strand_.AssertCurrent();
    return state_ == State::kIdle;
  }
  [[nodiscard]] bool reading() const {
    strand_.AssertCurrent();
    return state_ == State::kReading || state_ == State::kYielded || state_ == State::kWaiting;
  }

 private:
  enum class State : std::uint8_t { kNotBegun, kIdle, kReading, kYielded, kWaiting, kStopped };

  void OnReadDone(Result<store::TaskPage> page, store::TaskLevel through) MR_REQUIRES(strand_);
  void OnReadFailed(const Status& status) MR_REQUIRES(strand_);

  const store::PhysicalQueueKey& key_;
  const store::Subqueue subqueue_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  exec::Gate& gate_;
  Host& host_;
  BacklogMetrics& metrics_;
  const Duration throttled_wait_;

  State state_ MR_GUARDED_BY(strand_) = State::kNotBegun;
  bool full_ MR_GUARDED_BY(strand_) = false;
  core::ReadPlanner planner_ MR_GUARDED_BY(strand_);
  core::RetryPolicy retry_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
