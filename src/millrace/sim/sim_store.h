#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/exec/executor.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/task_store.h"

namespace millrace::sim {

// One host's way to a durable store: each call takes effect, is refused, is lost or answers late as
// a FaultPlan says. Several SimStores over one TaskStore are several hosts sharing a durable store.
//
// Thread: one at a time (a simulation or a test with a ManualExecutor). The plan is asked inside
// each call. Bounds: none; callers bound their calls. Fails: as the plan says, otherwise as the
// durable store does. Invariants: what async_task_store.h promises. A write that was answered with
// kUnknownOutcome and is still under way may be passed by later writes of its queue; only its
// condition protects the queue from it, as on a real network.
class SimStore final : public store::AsyncTaskStore {
 public:
  // `network` runs the simulation's side of each call; it, `durable` and `plan` must outlive every
  // call under way.
  SimStore(exec::Executor& network, store::TaskStore& durable, FaultPlan& plan);
  ~SimStore() override;

  [[nodiscard]] store::StoreTraits traits() const override { return traits_; }
  void set_traits(store::StoreTraits traits) { traits_ = traits; }

  void Commit(store::QueueWrite write, exec::Strand& strand, store::CommitCallback done) override;
  void ReadMetadata(const store::PhysicalQueueKey& queue, exec::Strand& strand,
                    store::Callback<store::QueueMetadata> done) override;
  void ReadRangeIds(std::vector<store::PhysicalQueueKey> queues, exec::Strand& strand,
                    UniqueFunction<void(std::vector<Result<RangeId>>)> done) override;
  void ReadTasks(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                 store::TaskLevel from, store::TaskLevel through, std::size_t limit,
                 std::size_t max_bytes, exec::Strand& strand,
                 store::Callback<store::TaskPage> done) override;
  void DeleteTasksThrough(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                          store::TaskLevel through, std::size_t limit, exec::Strand& strand,
                          store::Callback<std::optional<std::int64_t>> done) override;
  void ReadSideRows(const store::PhysicalQueueKey& queue, std::string prefix, std::string after,
                    std::size_t limit, exec::Strand& strand,
                    store::Callback<store::SidePage> done) override;
  void ListQueues(std::string page_token, std::size_t limit, exec::Strand& strand,
                  store::Callback<store::QueuePage> done) override;
  void DeleteQueue(const store::PhysicalQueueKey& queue, RangeId expected_range_id,
                   exec::Strand& strand, store::StatusCallback done) override;
  Status Health() override { return durable_.Health(); }

  // Late writes sent from now on are lost when `*incarnation` changes: a store that restarts
  // forgets what was on its way to it.
  void set_incarnation(std::shared_ptr<const std::uint64_t> incarnation) {
    incarnation_ = std::move(incarnation);
  }

  // The host dies. Of each queue's writes that had not reached the store, the first few may still
  // do so (as `random` says), the rest never will; what was to be answered is answered with
  // kUnknownOutcome (reads: kUnavailable), and every later call with kUnavailable, so that the dead
  // host's objects can be taken down in order. Nothing of this host changes the store from here on
  // but writes that were on their way late already.
  void Crash(Random& random);

  [[nodiscard]] std::size_t calls_in_flight() const { return calls_.size(); }
  [[nodiscard]] std::uint64_t calls() const { return last_call_; }

 private:
  struct Call;

  template <typename R>
  struct CallOf;

  // `queue` is set for writes: it orders them.
  template <typename R, typename EffectFn, typename AnswerFn>
  void Start(StoreOp op, const store::PhysicalQueueKey* queue, exec::Strand& strand,
             EffectFn effect, AnswerFn answer);
  void Schedule(std::unique_ptr<Call> call, const store::PhysicalQueueKey* queue);
  // The call, and every write of its queue handed over before it, reaches the store.
  void Reach(std::uint64_t id);
  void Apply(Call& call);
  void AnswerAt(Instant when, std::uint64_t id);
  void Answer(std::uint64_t id);

  exec::Executor& network_;
  store::TaskStore& durable_;
  FaultPlan& plan_;
  store::StoreTraits traits_;
  std::shared_ptr<const std::uint64_t> incarnation_ = std::make_shared<const std::uint64_t>(0);
  bool crashed_ = false;
  std::uint64_t last_call_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Call>> calls_;
  struct Lane {
    std::deque<std::uint64_t>
        waiting;  // Writes that have not reached the store, in the order handed over.
    Instant last_reaches_at;
  };
  std::map<store::PhysicalQueueKey, Lane> lanes_;
  // Cleared at destruction, so that closures still on their way find nobody.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace millrace::sim
