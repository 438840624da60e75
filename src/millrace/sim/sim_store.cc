#include "millrace/sim/sim_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "millrace/base/check.h"

namespace millrace::sim {

struct SimStore::Call {
  virtual ~Call() = default;
  // Does it, and keeps the result.
  virtual void Run(store::TaskStore& durable) = 0;
  virtual void SetResult(Status error) = 0;
  // A closure that does it once more, outliving this call.
  virtual UniqueFunction<void(store::TaskStore&)> TakeEffect() = 0;
  // Runs the caller's callback with the result.
  virtual Closure TakeAnswer() = 0;

  std::uint64_t id = 0;
  StoreOp op = StoreOp::kCommit;
  Fault fault;
  exec::Strand* strand = nullptr;
  const store::PhysicalQueueKey* lane =
      nullptr;  // Key inside lanes_; null for what is not ordered.
  bool reached = false;
};

template <typename R>
struct SimStore::CallOf final : Call {
  void Run(store::TaskStore& durable) override { result.emplace(effect(durable)); }
  void SetResult(Status error) override { result.emplace(std::move(error)); }
  UniqueFunction<void(store::TaskStore&)> TakeEffect() override {
    return [run = std::move(effect)](store::TaskStore& durable) mutable { (void)run(durable); };
  }
  Closure TakeAnswer() override {
    MR_CHECK(result.has_value());
    // The write an effect holds goes back to the caller without a copy when nobody else needs it.
    effect = nullptr;
    return
        [run = std::move(answer), value = std::move(*result)]() mutable { run(std::move(value)); };
  }

  UniqueFunction<R(store::TaskStore&)> effect;
  UniqueFunction<void(R)> answer;
  std::optional<R> result;
};

SimStore::SimStore(exec::Executor& network, store::TaskStore& durable, FaultPlan& plan)
    : network_(network), durable_(durable), plan_(plan), traits_(durable.traits()) {
  traits_.exclusive = false;
}

SimStore::~SimStore() { *alive_ = false; }

template <typename R, typename EffectFn, typename AnswerFn>
void SimStore::Start(StoreOp op, const store::PhysicalQueueKey* queue, exec::Strand& strand,
                     EffectFn effect, AnswerFn answer) {
  auto call = std::make_unique<CallOf<R>>();
  call->id = ++last_call_;
  call->op = op;
  call->strand = &strand;
  call->effect = std::move(effect);
  call->answer = std::move(answer);
  Schedule(std::move(call), queue);
}

void SimStore::Schedule(std::unique_ptr<Call> call, const store::PhysicalQueueKey* queue) {
  const std::uint64_t id = call->id;
  Call& started = *calls_.emplace(id, std::move(call)).first->second;
  if (crashed_) {
    started.SetResult(Status(StatusCode::kUnavailable, "this host is down"));
    AnswerAt(network_.clock().Now(), id);
    return;
  }
  started.fault = plan_.Next(started.op);
  const Instant now = network_.clock().Now();
  Instant at = now + started.fault.before;
  if (queue != nullptr) {
    const auto lane = lanes_.try_emplace(*queue).first;
    if (!lane->second.waiting.empty()) at = std::max(at, lane->second.last_reaches_at);
    lane->second.last_reaches_at = at;
    lane->second.waiting.push_back(id);
    started.lane = &lane->first;
  }
  Closure reach = [this, id, alive = alive_] {
    if (*alive) Reach(id);
  };
  if (at <= now) {
    network_.Post(std::move(reach));
  } else {
    network_.PostAt(at, std::move(reach));
  }
}

void SimStore::Reach(std::uint64_t id) {
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second->reached) return;
  Call& call = *it->second;
  if (call.lane == nullptr) {
    Apply(call);
    return;
  }
  std::deque<std::uint64_t>& waiting = lanes_.at(*call.lane).waiting;
  for (;;) {
    const std::uint64_t first = waiting.front();
    waiting.pop_front();
    Apply(*calls_.at(first));
    if (first == id) break;
  }
}

void SimStore::Apply(Call& call) {
  call.reached = true;
  switch (call.fault.kind) {
    case FaultKind::kNone:
    case FaultKind::kStall:
      call.Run(durable_);
      break;
    case FaultKind::kUnavailable:
      call.SetResult(Status(StatusCode::kUnavailable, "simulated: store not reachable"));
      break;
    case FaultKind::kDamagedRead:
      call.SetResult(IsWrite(call.op)
                         ? Status(StatusCode::kUnavailable, "simulated: store not reachable")
                         : Status(StatusCode::kCorruption, "simulated: damaged bytes"));
      break;
    case FaultKind::kResourceExhausted:
      call.SetResult(Status(StatusCode::kResourceExhausted, "simulated: store over its limit"));
      break;
    case FaultKind::kReplyLost:
    case FaultKind::kNotApplied:
    case FaultKind::kAppliedLate:
      if (!IsWrite(call.op)) {
        call.SetResult(Status(StatusCode::kUnavailable, "simulated: reply lost"));
        break;
      }
      if (call.fault.kind == FaultKind::kReplyLost) call.Run(durable_);
      if (call.fault.kind == FaultKind::kAppliedLate) {
        // On its way whatever becomes of this host, so it holds nothing of it.
        network_.PostAt(network_.clock().Now() + call.fault.after + call.fault.late_by,
                        [effect = call.TakeEffect(), durable = &durable_, now = incarnation_,
                         then = *incarnation_]() mutable {
                          if (*now == then) effect(*durable);
                        });
      }
      call.SetResult(Status(StatusCode::kUnknownOutcome, "simulated: no reply"));
      break;
  }
  AnswerAt(network_.clock().Now() + call.fault.after, call.id);
}

void SimStore::AnswerAt(Instant when, std::uint64_t id) {
  Closure answer = [this, id, alive = alive_] {
    if (*alive) Answer(id);
  };
  if (when <= network_.clock().Now()) {
    network_.Post(std::move(answer));
  } else {
    network_.PostAt(when, std::move(answer));
  }
}

void SimStore::Answer(std::uint64_t id) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;  // Answered by Crash.
  const std::unique_ptr<Call> call = std::move(it->second);
  calls_.erase(it);
  // By way of the strand's home, as a store's own thread would: the strand must not run on the
  // network.
  exec::Strand* strand = call->strand;
  strand->home().Post(
      [strand, answer = call->TakeAnswer()]() mutable { strand->Post(std::move(answer)); });
}

void SimStore::Crash(Random& random) {
  MR_CHECK(!crashed_);
  crashed_ = true;
  for (auto& [queue, lane] : lanes_) {
    const std::uint64_t reach = lane.waiting.empty() ? 0 : random.Below(lane.waiting.size() + 1);
    for (std::uint64_t i = 0; i < reach; ++i) {
      Call& call = *calls_.at(lane.waiting[i]);
      if (call.fault.kind == FaultKind::kNone || call.fault.kind == FaultKind::kStall)
        call.Run(durable_);
    }
    lane.waiting.clear();
  }
  std::vector<std::uint64_t> ids;
  for (auto& [id, call] : calls_) {
    call->reached = true;
    call->SetResult(IsWrite(call->op) ? Status(StatusCode::kUnknownOutcome, "this host is down")
                                      : Status(StatusCode::kUnavailable, "this host is down"));
    ids.push_back(id);
  }
  for (const std::uint64_t id : ids) Answer(id);
}

void SimStore::Commit(store::QueueWrite write, exec::Strand& strand, store::CommitCallback done) {
  const store::PhysicalQueueKey queue = write.queue;
  auto held = std::make_shared<store::QueueWrite>(std::move(write));
  Start<Status>(
      StoreOp::kCommit, &queue, strand,
      [held](store::TaskStore& durable) {
        return durable.Commit(std::span<const store::QueueWrite>(held.get(), 1))[0];
      },
      [held, done = std::move(done)](Status status) mutable {
        if (held.use_count() == 1) {
          done(std::move(status), std::move(*held));
        } else {
          done(std::move(status), *held);
        }
      });
}

void SimStore::ReadMetadata(const store::PhysicalQueueKey& queue, exec::Strand& strand,
                            store::Callback<store::QueueMetadata> done) {
  Start<Result<store::QueueMetadata>>(
      StoreOp::kReadMetadata, nullptr, strand,
      [queue](store::TaskStore& durable) { return durable.ReadMetadata(queue); }, std::move(done));
}

void SimStore::ReadRangeIds(std::vector<store::PhysicalQueueKey> queues, exec::Strand& strand,
                            UniqueFunction<void(std::vector<Result<RangeId>>)> done) {
  using Ids = std::vector<Result<RangeId>>;
  const std::size_t count = queues.size();
  Start<Result<Ids>>(
      StoreOp::kReadRangeIds, nullptr, strand,
      [queues = std::move(queues)](store::TaskStore& durable) {
        return Result<Ids>(durable.ReadRangeIds(queues));
      },
      [count, done = std::move(done)](Result<Ids> ids) mutable {
        done(ids.ok() ? std::move(*ids) : Ids(count, Result<RangeId>(ids.status())));
      });
}

void SimStore::ReadTasks(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                         store::TaskLevel from, store::TaskLevel through, std::size_t limit,
                         std::size_t max_bytes, exec::Strand& strand,
                         store::Callback<store::TaskPage> done) {
  Start<Result<store::TaskPage>>(
      StoreOp::kReadTasks, nullptr, strand,
      [queue, subqueue, from, through, limit, max_bytes](store::TaskStore& durable) {
        return durable.ReadTasks(queue, subqueue, from, through, limit, max_bytes);
      },
      std::move(done));
}

void SimStore::DeleteTasksThrough(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                                  store::TaskLevel through, std::size_t limit, exec::Strand& strand,
                                  store::Callback<std::optional<std::int64_t>> done) {
  Start<Result<std::optional<std::int64_t>>>(
      StoreOp::kDeleteTasksThrough, &queue, strand,
      [queue, subqueue, through, limit](store::TaskStore& durable) {
        return durable.DeleteTasksThrough(queue, subqueue, through, limit);
      },
      std::move(done));
}

void SimStore::ReadSideRows(const store::PhysicalQueueKey& queue, std::string prefix,
                            std::string after, std::size_t limit, exec::Strand& strand,
                            store::Callback<store::SidePage> done) {
  Start<Result<store::SidePage>>(
      StoreOp::kReadSideRows, nullptr, strand,
      [queue, prefix = std::move(prefix), after = std::move(after), limit](
          store::TaskStore& durable) { return durable.ReadSideRows(queue, prefix, after, limit); },
      std::move(done));
}

void SimStore::ListQueues(std::string page_token, std::size_t limit, exec::Strand& strand,
                          store::Callback<store::QueuePage> done) {
  Start<Result<store::QueuePage>>(
      StoreOp::kListQueues, nullptr, strand,
      [token = std::move(page_token), limit](store::TaskStore& durable) {
        return durable.ListQueues(token, limit);
      },
      std::move(done));
}

void SimStore::DeleteQueue(const store::PhysicalQueueKey& queue, RangeId expected_range_id,
                           exec::Strand& strand, store::StatusCallback done) {
  Start<Status>(
      StoreOp::kDeleteQueue, &queue, strand,
      [queue, expected_range_id](store::TaskStore& durable) {
        return durable.DeleteQueue(queue, expected_range_id);
      },
      std::move(done));
}

}  // namespace millrace::sim
