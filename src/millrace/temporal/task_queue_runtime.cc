// TaskQueueRuntime: life cycle and partitions.
#include "millrace/temporal/task_queue_runtime.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/temporal/error_details.h"

namespace millrace::temporal {

TaskQueueRuntime::TaskQueueRuntime(store::PhysicalQueueKey key,
                                   const TaskQueueEnvironment& environment, exec::Executor& home)
    : key_(std::move(key)),
      type_(static_cast<TaskType>(key_.task_type)),
      env_(environment),
      config_(env_.backlog.config),
      strand_(home),
      matcher_(strand_, *this, config_.pollers_max),
      rest_timer_(strand_),
      pollers_seen_(config_.poller_history, config_.poller_history_max),
      load_timer_(strand_),
      pause_timer_(strand_),
      adds_rate_(home.clock().Now()),
      dispatch_rate_(home.clock().Now()),
      last_used_ns_(home.clock().Now().ns) {}

TaskQueueRuntime::~TaskQueueRuntime() = default;

void TaskQueueRuntime::Start(UnloadCallback on_unload) {
  strand_.Post([this, self = shared_from_this(), on_unload = std::move(on_unload)]() mutable {
    strand_.AssertCurrent();
    if (state_ != State::kNew) return;  // Stopped before it began.
    state_ = State::kOpen;
    on_unload_ = std::move(on_unload);
    At(0);
    if (partitioned_) FindPartitions();
    // Calls may have asked for others meanwhile.
    for (auto& [number, partition] : partitions_) partition->Find();
  });
}

PartitionBacklog& TaskQueueRuntime::At(std::int32_t partition) {
  strand_.AssertCurrent();
  std::unique_ptr<PartitionBacklog>& at = partitions_[partition];
  if (at == nullptr) {
    at = std::make_unique<PartitionBacklog>(partition, RowsOf(partition), env_.backlog, strand_,
                                            gate_, static_cast<BacklogOwner&>(*this));
    if (state_ == State::kOpen) at->Find();
  }
  return *at;
}

store::PhysicalQueueKey TaskQueueRuntime::RowsOf(std::int32_t partition) const {
  if (partition == 0) return key_;
  Partition root;
  root.namespace_id = key_.namespace_id;
  root.base_name = key_.persistence_name;
  root.type = type_;
  return root.Sibling(partition).UnversionedQueue();
}

void TaskQueueRuntime::UseAs(QueueKind kind) {
  strand_.AssertCurrent();
  if (kind == QueueKind::kSticky) sticky_ = true;
  if (kind != QueueKind::kNormal || partitioned_) return;
  partitioned_ = true;
  if (state_ == State::kOpen) FindPartitions();
}

void TaskQueueRuntime::FindPartitions() {
  strand_.AssertCurrent();
  for (std::int32_t n = 1; n < config_.partitions; ++n) At(n);
}

bool TaskQueueRuntime::AllKnown() const {
  strand_.AssertCurrent();
  return state_ != State::kNew && std::all_of(partitions_.begin(), partitions_.end(),
                                              [](const auto& at) { return at.second->known(); });
}

void TaskQueueRuntime::OnPartitionKnown(std::int32_t /*partition*/) {
  strand_.AssertCurrent();
  if (state_ != State::kOpen || !AllKnown()) return;
  load_timer_.Cancel();
  for (Closure& done : std::exchange(when_known_, {})) done();
  // Some may have to wait again, for a partition that is made for them.
  for (OpenAdd& add : std::exchange(adds_waiting_, {})) TryAdd(std::move(add));
}

void TaskQueueRuntime::WhenKnown(Closure done) {
  strand_.AssertCurrent();
  if (AllKnown() || state_ > State::kOpen) return strand_.Post(std::move(done));
  when_known_.push_back(std::move(done));
  ArmLoadTimer();
}

void TaskQueueRuntime::ArmLoadTimer() {
  strand_.AssertCurrent();
  if (load_timer_.armed()) return;
  load_timer_.Arm(strand_.clock().Now() + config_.load_wait_max, [this] {
    strand_.AssertCurrent();
    FailWaitingAdds(
        EngineError(Status(StatusCode::kUnavailable, "the task queue could not be loaded in time")),
        false);
    for (Closure& known : std::exchange(when_known_, {})) known();
  });
}

void TaskQueueRuntime::OnTasksAvailable() {
  strand_.AssertCurrent();
  if (state_ == State::kOpen && matcher_.pollers() > 0) matcher_.Pump();
}

bool TaskQueueRuntime::HasLoaded() const {
  strand_.AssertCurrent();
  if (Paused()) return false;
  return std::any_of(partitions_.begin(), partitions_.end(), [](const auto& at) {
    return at.second->held() && at.second->manager().HasLoaded();
  });
}

std::vector<backlog::LoadedTask> TaskQueueRuntime::TakeLoaded(std::size_t max) {
  strand_.AssertCurrent();
  MR_CHECK(max == 1);
  // Partitions take turns.
  auto it = partitions_.upper_bound(taken_from_);
  for (std::size_t i = 0; i < partitions_.size(); ++i, ++it) {
    if (it == partitions_.end()) it = partitions_.begin();
    if (!it->second->held()) continue;
    std::vector<backlog::LoadedTask> tasks = it->second->manager().TakeLoaded(1);
    if (tasks.empty()) continue;
    taken_from_ = it->first;
    return tasks;
  }
  return {};
}

void TaskQueueRuntime::Run(RunCallback op) {
  Touch();
  Visit(std::move(op));
}

void TaskQueueRuntime::Touch() {
  last_used_ns_.store(strand_.clock().Now().ns, std::memory_order_relaxed);
}

void TaskQueueRuntime::Visit(RunCallback op) {
  strand_.Post([this, self = shared_from_this(), op = std::move(op)]() mutable {
    strand_.AssertCurrent();
    if (state_ <= State::kOpen) return op(OkStatus());
    op(Status(StatusCode::kShuttingDown, "the task queue is being unloaded"));
  });
}

void TaskQueueRuntime::RequestUnload(backlog::UnloadCause cause, const Status& status) {
  strand_.AssertCurrent();
  if (!on_unload_) return;
  if (cause != backlog::UnloadCause::kIdle && cause != backlog::UnloadCause::kForced) {
    // Polls that come back at once would only load it again: let their workers back off.
    polls_end_with_ = EngineError(Status(StatusCode::kUnavailable, "the task queue was given up"));
  }
  if (cause == backlog::UnloadCause::kInitError) FailWaitingAdds(EngineError(status), false);
  std::exchange(on_unload_, {})(cause, status);
}

void TaskQueueRuntime::OnUnloadRequested(backlog::UnloadCause cause, const Status& status) {
  RequestUnload(cause, status);
}

void TaskQueueRuntime::UnloadIfIdle(Instant before) {
  strand_.Post([this, self = shared_from_this(), before] {
    strand_.AssertCurrent();
    if (state_ != State::kOpen || last_used() > before || !polls_.empty() || adds_open_ > 0 ||
        starts_in_flight_ > 0 || !when_known_.empty()) {
      return;
    }
    RequestUnload(backlog::UnloadCause::kIdle, OkStatus());
  });
}

void TaskQueueRuntime::ForceUnload() {
  strand_.Post([this, self = shared_from_this()] {
    strand_.AssertCurrent();
    RequestUnload(backlog::UnloadCause::kForced, OkStatus());
  });
}

void TaskQueueRuntime::Stop(Closure done) {
  strand_.Post([this, self = shared_from_this(), done = std::move(done)]() mutable {
    strand_.AssertCurrent();
    MR_CHECK(state_ != State::kStopping && state_ != State::kStopped);
    state_ = State::kStopping;
    on_unload_ = {};
    stopped_ = std::move(done);
    load_timer_.Cancel();
    pause_timer_.Cancel();
    rest_timer_.Cancel();
    FailWaitingAdds({}, true);
    for (Closure& known : std::exchange(when_known_, {})) known();
    for (const auto& [until, id] : std::exchange(resting_, {})) {
      Answer(polls_.find(id), {polls_end_with_, {}});
    }
    matcher_.Close(Status(StatusCode::kShuttingDown, "the task queue is being unloaded"));
    // Tasks being started end first: what becomes of them may have to be written.
    if (starts_in_flight_ == 0) StopBacklogs();
  });
}

void TaskQueueRuntime::StopBacklogs() {
  strand_.AssertCurrent();
  backlogs_stopping_ = partitions_.size() + 1;
  for (auto& [number, partition] : partitions_) {
    partition->Stop([this] { OnBacklogsStopped(); });
  }
  OnBacklogsStopped();
}

void TaskQueueRuntime::OnBacklogsStopped() {
  strand_.AssertCurrent();
  if (--backlogs_stopping_ > 0) return;
  gate_.Close([this, self = shared_from_this()]() mutable {
    strand_.Post([this, self] {
      strand_.AssertCurrent();
      state_ = State::kStopped;
      std::exchange(stopped_, {})();
    });
  });
}

TaskQueueView TaskQueueRuntime::Describe() const {
  strand_.AssertCurrent();
  const Instant now = strand_.clock().Now();
  TaskQueueView view;
  view.pollers = pollers_seen_.List(now);
  view.add_rate = adds_rate_.PerSecond(now);
  view.dispatch_rate = dispatch_rate_.PerSecond(now);
  for (const auto& [number, partition] : partitions_) {
    if (!partition->held()) continue;
    const backlog::BacklogManager& manager = partition->manager();
    PartitionView& out = view.partitions[number];
    out.held = true;
    out.backlog_count_hint = manager.BacklogCountHint();
    out.approximate_count = manager.TotalApproximateBacklogCount();
    out.head_age = manager.BacklogHeadAge();
    out.backlog = manager.DescribeBacklog();
    out.internal = manager.InternalStatus().front();
  }
  return view;
}

}  // namespace millrace::temporal
