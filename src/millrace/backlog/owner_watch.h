#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "millrace/base/function.h"
#include "millrace/base/ids.h"
#include "millrace/base/time.h"
#include "millrace/exec/executor.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

// Notices for the queues of a process that the store gave one of them to somebody else, which an
// owner that writes nothing would not hear of. It asks for all of them at once, so that an idle
// queue has no timer and no store call of its own.
//
// Thread: any. `store` and `home` outlive it and what it has asked.
// Bounds: one question of at most kRangeIdsMax queues per that many queues and interval; none while
// no queue is watched; no new round before the last one was answered.
// Fails: a question that fails is asked again an interval later.
// Invariants: once a Watched is gone its callback does not run.
class OwnerWatch {
 private:
  struct Entry;
  struct State;

 public:
  // Runs with a lock of the watch held: it may only post. `asked`: the range id that the owner had
  // when the store was asked; `found`: the store's, 0 = the queue is gone.
  using Notify = UniqueFunction<void(RangeId asked, RangeId found)>;

  // A queue that is watched until this is destroyed.
  class Watched {
   public:
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    // The owner's range id from now on.
    void SetRangeId(RangeId ours);

   private:
    friend class OwnerWatch;
    Watched(std::shared_ptr<State> state, std::uint64_t number, std::shared_ptr<Entry> entry);
    const std::shared_ptr<State> state_;
    const std::uint64_t number_;
    const std::shared_ptr<Entry> entry_;
  };

  OwnerWatch(store::AsyncTaskStore& store, exec::Executor& home, Duration interval);
  // What is in flight is answered to nobody.
  ~OwnerWatch();
  OwnerWatch(const OwnerWatch&) = delete;
  OwnerWatch& operator=(const OwnerWatch&) = delete;

  [[nodiscard]] std::unique_ptr<Watched> Watch(const store::PhysicalQueueKey& queue, RangeId ours,
                                               Notify notify);

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace millrace::backlog
