#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"
#include "millrace/temporal/matching_config.h"

namespace millrace::temporal {

// What every backlog of a process shares. All of it outlives them.
struct BacklogEnvironment {
  const MatchingConfig& config;
  store::AsyncTaskStore& store;
  backlog::OwnerWatch& owner_watch;
  Random& random;  // Thread: any.
  backlog::BacklogMetrics& metrics;
  Log& log;
};

// What a partition tells the task queue it belongs to. All calls on the strand, never inside a call
// into the partition.
class BacklogOwner {
 public:
  virtual ~BacklogOwner() = default;
  // The partition is absent or held from here on (again, after Load).
  virtual void OnPartitionKnown(std::int32_t partition) = 0;
  virtual void OnTasksAvailable() = 0;
  virtual void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) = 0;
};

// What one partition of a task queue has stored, or that it has nothing: a partition is looked for
// first, and its lease is taken only when there is a backlog or when a task has to be stored, so
// that queues which are only polled leave no rows. In a store that other hosts share, an absent one
// is looked for again now and then, as one that is held looks whether it still is.
//
//   unknown -> (looked for) -> absent -> (a task comes) -> loading -> held
//                         \------------ (it is there) ------^
//
// Thread: its strand.
// Bounds: BacklogConfig. Fails: store errors are retried; when it has to be given up it says so
// once, through the owner.
class PartitionBacklog final : private backlog::BacklogListener {
 public:
  PartitionBacklog(std::int32_t number, store::PhysicalQueueKey key,
                   const BacklogEnvironment& environment, exec::Strand& strand, exec::Gate& gate,
                   BacklogOwner& owner);
  ~PartitionBacklog() override;

  // Looks whether the partition has a backlog, and loads it then. Once.
  void Find();
  // Takes the lease of an absent partition, creating it.
  void Load();

  [[nodiscard]] bool known() const {
    strand_.AssertCurrent();
    return state_ == State::kAbsent || state_ == State::kHeld;
  }
  [[nodiscard]] bool held() const {
    strand_.AssertCurrent();
    return state_ == State::kHeld;
  }
  [[nodiscard]] std::int32_t number() const { return number_; }

  // Held only.
  backlog::BacklogManager& manager() { return *manager_; }
  [[nodiscard]] const backlog::BacklogManager& manager() const { return *manager_; }

  // Ends all. `done` runs on the strand. Once.
  void Stop(Closure done);

 private:
  enum class State : std::uint8_t { kUnknown, kAbsent, kLoading, kHeld, kStopping };

  void Look();
  void OnAbsent();

  void OnLeaseHeld() override;
  bool OnTaskLoaded(const store::TaskRow& /*row*/) override { return false; }
  void OnTasksAvailable() override { owner_.OnTasksAvailable(); }
  void OnBuildWrite(store::QueueWrite& /*write*/) override {}
  void OnWriteEnd(bool /*applied*/) override {}
  void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) override;

  const std::int32_t number_;
  const store::PhysicalQueueKey key_;
  const BacklogEnvironment& env_;
  exec::Strand& strand_;
  exec::Gate& gate_;
  BacklogOwner& owner_;
  exec::StrandTimer retry_;
  Duration retry_wait_;
  State state_ MR_GUARDED_BY(strand_) = State::kUnknown;
  std::unique_ptr<backlog::BacklogManager> manager_;
};

}  // namespace millrace::temporal
