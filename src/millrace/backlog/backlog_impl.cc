#include "millrace/backlog/backlog_impl.h"

#include <algorithm>
#include <string>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/core/expiry.h"

namespace millrace::backlog {
namespace {

constexpr std::size_t kSubqueuesMax = 64;

const BacklogConfig& Checked(const BacklogConfig& config) {
  MR_CHECK(config.range_size >= 1 && config.write_batch_max >= 1 && config.page_size >= 1);
  MR_CHECK(config.page_bytes_max >= 1 && config.gc_batch >= 1 &&
           config.empty_ranges_per_turn_max >= 1);
  return config;
}

}  // namespace

std::string_view UnloadCauseName(UnloadCause cause) {
  switch (cause) {
    case UnloadCause::kInitError:
      return "init_error";
    case UnloadCause::kConflict:
      return "conflict";
    case UnloadCause::kOtherError:
      return "other_error";
    case UnloadCause::kIdle:
      return "idle";
    case UnloadCause::kShuttingDown:
      return "shutting_down";
    case UnloadCause::kForced:
      return "forced";
  }
  return "unknown";
}

BacklogManager::Impl::Impl(store::PhysicalQueueKey key, const BacklogConfig& config,
                           exec::Strand& strand, store::AsyncTaskStore& store, OwnerWatch& watch,
                           Random& random, BacklogMetrics& metrics, Log& log,
                           BacklogListener& listener)
    : key_(std::move(key)),
      config_(Checked(config)),
      strand_(strand),
      store_(store),
      watch_(watch),
      random_(random),
      metrics_(metrics),
      log_(log),
      listener_(listener),
      lease_(key_, config_, random.Next(), strand, store, gate_, random, metrics),
      ledger_(lease_.nonce(), config_.range_size),
      writer_(key_, config_, strand, store, gate_, random, lease_, *this, metrics),
      rewriter_(
          config_, strand, metrics, [this](WriteOp op) { Submit(std::move(op), false); },
          [this](const Status& status) {
            strand_.AssertCurrent();
            no_final_update_ = true;
            RequestUnload(UnloadCause::kOtherError, status);
          }),
      expired_(
          config_, strand, random, Total::kDroppedExpired,
          [this](WriteOp op) { Submit(std::move(op), true); },
          [this](const std::vector<store::TaskKey>& keys) {
            strand_.AssertCurrent();
            for (const store::TaskKey& expired : keys) At(expired.subqueue).OnExpiredDeleted(1);
          }),
      finished_(
          config_, strand, random, Total::kDone,
          [this](WriteOp op) { Submit(std::move(op), false); },
          [](const std::vector<store::TaskKey>&) {}),
      update_timer_(strand),
      stop_timer_(strand) {}

BacklogManager::Impl::~Impl() MR_NO_THREAD_SAFETY_ANALYSIS {
  // Drained, so there is nobody left to race with: whoever held the last reference may destroy it.
  MR_CHECK(state_ == State::kNew || state_ == State::kDrained);
}

void BacklogManager::Impl::Start() {
  strand_.AssertCurrent();
  if (state_ == State::kStopping || state_ == State::kDrained) return;
  MR_CHECK(state_ == State::kNew);
  state_ = State::kTaking;
  lease_.Take([this](Result<TakenQueue> taken) {
    strand_.AssertCurrent();
    OnTaken(std::move(taken));
  });
}

void BacklogManager::Impl::OnTaken(Result<TakenQueue> taken) {
  const Status status = taken.ok() ? Adopt(*taken) : taken.status();
  if (status.ok()) {
    state_ = State::kOwned;
    levels_known_ = true;
    log_.Write(LogLevel::kDebug, "backlog", "lease taken",
               {{"queue", key_.persistence_name}, {"range_id", lease_.range_id().value}});
    writer_.Begin();
    SettleCounts();
    StartWatch();
    const bool garbage = std::any_of(subqueues_.begin(), subqueues_.end(),
                                     [](const auto& subqueue) { return subqueue->HasGarbage(); });
    if (dirty_ || garbage) ArmUpdateTimer();
    listener_.OnLeaseHeld();
    return TellInitialized({});
  }
  const bool fenced = status.code() == StatusCode::kFenced;
  if (fenced) metrics_.condition_failures.Increment();
  no_final_update_ = true;
  init_error_ = status;
  Halt(status);
  TellInitialized(status);
  RequestUnload(fenced ? UnloadCause::kConflict : UnloadCause::kInitError, status);
}

Status BacklogManager::Impl::Adopt(const TakenQueue& taken) {
  const TaskId below_block{lease_.block().start().value - 1};
  const std::vector<store::SubqueueMetadata>& stored = taken.metadata.subqueues;
  if (stored.size() > kSubqueuesMax)
    return {StatusCode::kCorruption, "the stored metadata has too many subqueues"};
  for (const store::SubqueueMetadata& subqueue : stored) {
    if (subqueue.ack_level < store::TaskLevel{0, TaskId{0}} || subqueue.ack_level.pass != 0 ||
        subqueue.ack_level.id > below_block) {
      return {StatusCode::kCorruption,
              "the stored ack level is not one this queue can have reached"};
    }
  }
  ledger_.Load(taken.metadata, taken.state);
  carried_ = taken.metadata.carried;
  for (const store::SubqueueMetadata& subqueue : stored) {
    EnsureSubqueues(subqueues_.size() + 1, MR_MUTANT(ack_level_not_restored)
                                               ? store::TaskLevel{0, TaskId{0}}
                                               : subqueue.ack_level);
    subqueues_.back()->RaiseTo(below_block);
  }
  if (stored.empty()) {
    EnsureSubqueues(1, {0, TaskId{0}});
    subqueues_.back()->RaiseTo(below_block);
  }
  // The block size must be known before another one could come.
  if (taken.state.range_size != config_.range_size) dirty_ = true;
  return {};
}

void BacklogManager::Impl::EnsureSubqueues(std::size_t count, store::TaskLevel level) {
  ledger_.EnsureSubqueues(count);
  SubqueueBacklog::Owner& owner = *this;
  while (subqueues_.size() < count) {
    subqueues_.push_back(std::make_unique<SubqueueBacklog>(
        key_, static_cast<store::Subqueue>(subqueues_.size()), config_, strand_, store_, gate_,
        random_, owner, metrics_));
    subqueues_.back()->Begin(level, level.id);
    if (reading_) subqueues_.back()->BeginReading();
  }
}

SubqueueBacklog& BacklogManager::Impl::At(store::Subqueue subqueue) {
  return *subqueues_[static_cast<std::size_t>(subqueue)];
}

SubqueueBacklog* BacklogManager::Impl::Find(store::Subqueue subqueue) {
  if (subqueue < 0 || static_cast<std::size_t>(subqueue) >= subqueues_.size()) return nullptr;
  return &At(subqueue);
}

void BacklogManager::Impl::WhenInitialized(store::StatusCallback done) {
  strand_.AssertCurrent();
  init_waiters_.push_back(std::move(done));
  if (state_ == State::kOwned) return TellInitialized({});
  if (!init_error_.ok()) return TellInitialized(init_error_);
  if (state_ != State::kNew && state_ != State::kTaking) {
    TellInitialized({StatusCode::kShuttingDown, "the queue is being unloaded"});
  }
}

void BacklogManager::Impl::TellInitialized(const Status& status) {
  std::vector<store::StatusCallback> waiters;
  waiters.swap(init_waiters_);
  for (store::StatusCallback& done : waiters) {
    strand_.Post([done = std::move(done), status]() mutable { done(std::move(status)); });
  }
}

void BacklogManager::Impl::AdoptTasks(const std::vector<store::TaskKey>& tasks) {
  strand_.AssertCurrent();
  MR_CHECK(!reading_ && config_.delete_on_finish);
  for (const store::TaskKey& task : tasks) {
    SubqueueBacklog* subqueue = Find(task.subqueue);
    if (subqueue != nullptr && task.level > subqueue->acks().read_level()) {
      subqueue->Adopt(task.level);
    }
  }
}

void BacklogManager::Impl::BeginReading() {
  strand_.AssertCurrent();
  if (state_ != State::kOwned || reading_) return;
  reading_ = true;
  for (const auto& subqueue : subqueues_) subqueue->BeginReading();
}

Status BacklogManager::Impl::ValidateOp(const WriteOp& op) {
  for (const NewTask& task : op.creates) {
    if (task.subqueue < 0 || static_cast<std::size_t>(task.subqueue) >= kSubqueuesMax) {
      return {StatusCode::kInvalidArgument, "there is no such subqueue"};
    }
  }
  return {};
}

bool BacklogManager::Impl::BeginEnds(const WriteOp& op) {
  for (std::size_t i = 0; i < op.ends.size(); ++i) {
    SubqueueBacklog* subqueue = Find(op.ends[i].subqueue);
    if (subqueue != nullptr && subqueue->BeginEnd(op.ends[i].level)) continue;
    while (i > 0) {
      --i;
      At(op.ends[i].subqueue).CancelEnd(op.ends[i].level);
    }
    return false;
  }
  return true;
}

void BacklogManager::Impl::Submit(WriteOp op, bool relaxed) {
  strand_.AssertCurrent();
  Status status = ValidateOp(op);
  if (status.ok() && !BeginEnds(op)) {
    status = {StatusCode::kNotFound, "a task this change ends is not outstanding, or ends already"};
  }
  if (status.ok()) return writer_.Submit(std::move(op), relaxed);
  if (!op.done) return;
  strand_.Post([done = std::move(op.done), status, hold = gate_.TryEnter()]() mutable {
    done(WriteOutcome{std::move(status), {}});
  });
}

void BacklogManager::Impl::RequestWrite(bool synced) { writer_.RequestWrite(synced); }

std::vector<LoadedTask> BacklogManager::Impl::TakeLoaded(std::size_t max) {
  strand_.AssertCurrent();
  std::vector<LoadedTask> tasks;
  if (state_ != State::kOwned) return tasks;
  for (const auto& subqueue : subqueues_) {
    if (tasks.size() < max) subqueue->Take(max, tasks);
  }
  expired_.Flush();
  return tasks;
}

bool BacklogManager::Impl::HasLive(WallTime now) const {
  return std::any_of(subqueues_.begin(), subqueues_.end(),
                     [now](const auto& subqueue) { return subqueue->HasLive(now); });
}

bool BacklogManager::Impl::HasLoaded() {
  strand_.AssertCurrent();
  if (state_ != State::kOwned) return false;
  const WallTime now = strand_.clock().WallNow();
  if (HasLive(now)) return true;
  // Tasks that expired while they waited for a poller must not keep the live ones behind them out.
  for (const auto& subqueue : subqueues_) subqueue->DropExpired(now);
  expired_.Flush();
  return false;
}

void BacklogManager::Impl::PutBack(LoadedTask task) {
  strand_.AssertCurrent();
  SubqueueBacklog* subqueue = Find(task.key.subqueue);
  if (subqueue != nullptr) subqueue->PutBack(std::move(task));
}

void BacklogManager::Impl::CompleteTask(const store::TaskKey& key) {
  strand_.AssertCurrent();
  SubqueueBacklog* subqueue = Find(key.subqueue);
  if (subqueue == nullptr || !subqueue->acks().IsOutstanding(key.level)) return;
  if (config_.delete_on_finish) {
    finished_.Add(key);
    finished_.Flush();
  } else {
    subqueue->FinishInMemory(key.level);
  }
}

void BacklogManager::Impl::RewriteTask(LoadedTask task) { rewriter_.Rewrite(std::move(task)); }

bool BacklogManager::Impl::KeepRow(const store::TaskRow& row) {
  strand_.AssertCurrent();
  rows_loaded_ = true;
  return listener_.OnTaskLoaded(row);
}

void BacklogManager::Impl::DeleteExpired(const store::TaskKey& key) { expired_.Add(key); }

void BacklogManager::Impl::OnAckMoved(store::Subqueue subqueue, const core::Acked& acked,
                                      bool stored) {
  strand_.AssertCurrent();
  if (acked.count > 0) ledger_.Ack(subqueue, acked);
  if (!stored) MarkDirty();
  if (!writer_.busy()) SettleCounts();
  if (state_ == State::kOwned) At(subqueue).CollectGarbage();
}

void BacklogManager::Impl::OnRowsLoaded(store::Subqueue) {
  strand_.AssertCurrent();
  expired_.Flush();
  if (!rows_loaded_ || state_ != State::kOwned) return;
  rows_loaded_ = false;
  if (HasLive(strand_.clock().WallNow())) listener_.OnTasksAvailable();
}

void BacklogManager::Impl::SettleCounts() {
  if (ledger_.sent()) return;
  for (std::size_t i = 0; i < subqueues_.size(); ++i) {
    if (!subqueues_[i]->Drained() || !ledger_.SetEmpty(static_cast<store::Subqueue>(i))) continue;
    metrics_.count_corrections.Increment();
    MarkDirty();
  }
}

void BacklogManager::Impl::MarkDirty() {
  dirty_ = true;
  ArmUpdateTimer();
}

void BacklogManager::Impl::ArmUpdateTimer() {
  if (state_ != State::kOwned || update_timer_.armed()) return;
  update_timer_.Arm(strand_.clock().Now() + config_.update_interval, [this] {
    strand_.AssertCurrent();
    OnUpdateTimer();
  });
}

void BacklogManager::Impl::OnUpdateTimer() {
  if (state_ != State::kOwned) return;
  if (dirty_) writer_.RequestWrite(false);
  // What is left of a finished backlog goes too, though nothing else happens any more.
  bool garbage = false;
  for (const auto& subqueue : subqueues_) {
    subqueue->CollectGarbage();
    garbage = garbage || subqueue->HasGarbage();
  }
  if (garbage) ArmUpdateTimer();
}

void BacklogManager::Impl::StartWatch() {
  if (store_.traits().exclusive && !MR_MUTANT(idle_queue_keeps_timer)) return;
  watched_ = watch_.Watch(key_, lease_.range_id(), [this](RangeId asked, RangeId) {
    strand_.Post([this, asked, hold = gate_.Enter()] {
      strand_.AssertCurrent();
      OnOtherRangeId(asked);
    });
  });
}

void BacklogManager::Impl::OnOtherRangeId(RangeId asked) {
  if (state_ != State::kOwned || !writer_.idle()) return;
  if (lease_.range_id() != asked) {
    // A renewal of our own in between makes what was found worthless: the next answer counts.
    if (watched_ != nullptr) watched_->SetRangeId(lease_.range_id());
    return;
  }
  OnLeaseLost({StatusCode::kFenced, "another owner took the queue"});
}

void BacklogManager::Impl::OnLeaseLost(const Status& status) {
  strand_.AssertCurrent();
  if (state_ == State::kHalted || no_final_update_) {
    // Known already, or being unloaded for another reason; still nothing may be written.
    if (state_ == State::kOwned) Halt(status);
    return;
  }
  metrics_.condition_failures.Increment();
  no_final_update_ = true;
  Halt({StatusCode::kFenced, std::string(status.message())});
  RequestUnload(MR_MUTANT(unload_cause_wrong) ? UnloadCause::kOtherError : UnloadCause::kConflict,
                status);
}

void BacklogManager::Impl::OnDamaged(const Status& status) {
  strand_.AssertCurrent();
  if (state_ == State::kHalted) return;
  no_final_update_ = true;
  Halt(status);
  RequestUnload(UnloadCause::kOtherError, status);
}

void BacklogManager::Impl::Halt(const Status& status) {
  if (state_ != State::kStopping) state_ = State::kHalted;
  update_timer_.Cancel();
  watched_ = nullptr;
  for (const auto& subqueue : subqueues_) subqueue->Stop();
  rewriter_.Stop();
  expired_.Stop();
  finished_.Stop();
  writer_.Fail(status);
}

void BacklogManager::Impl::RequestUnload(UnloadCause cause, const Status& status) {
  if (unload_requested_ || state_ == State::kStopping || state_ == State::kDrained) return;
  unload_requested_ = true;
  log_.Write(LogLevel::kWarn, "backlog", "queue must be unloaded",
             {{"queue", key_.persistence_name},
              {"cause", UnloadCauseName(cause)},
              {"error", status.message()}});
  if (MR_MUTANT(never_unloads)) return;
  listener_.OnUnloadRequested(cause, status);
}

bool BacklogManager::Impl::lease_held() const {
  strand_.AssertCurrent();
  return state_ == State::kOwned;
}

const Totals& BacklogManager::Impl::totals() const {
  strand_.AssertCurrent();
  return ledger_.totals();
}

std::int64_t BacklogManager::Impl::BacklogCountHint() const {
  strand_.AssertCurrent();
  std::size_t count = 0;
  for (const auto& subqueue : subqueues_) count += subqueue->acks().outstanding();
  return static_cast<std::int64_t>(count);
}

std::int64_t BacklogManager::Impl::TotalApproximateBacklogCount() const {
  strand_.AssertCurrent();
  return ledger_.TotalCount();
}

Duration BacklogManager::Impl::BacklogHeadAge() const {
  strand_.AssertCurrent();
  WallTime head;
  for (const auto& subqueue : subqueues_) {
    WallTime created = subqueue->acks().head_create_time();
    if (config_.delete_on_finish) {
      created = subqueue->buffer().empty() ? WallTime{} : subqueue->buffer().front().create_time;
    }
    if (created.is_set() && (!head.is_set() || created < head)) head = created;
  }
  return core::AgeOf(head, strand_.clock().WallNow());
}

BacklogStatus BacklogManager::Impl::DescribeBacklog() const {
  strand_.AssertCurrent();
  BacklogStatus status{core::kUnknownLevel, core::kUnknownLevel, ledger_.TotalCount(), {}};
  if (subqueues_.empty()) return status;
  status.read_level = subqueues_.front()->acks().read_level();
  status.ack_level = subqueues_.front()->acks().ack_level();
  status.task_id_block = {lease_.block().start(), lease_.block().end()};
  return status;
}

std::vector<InternalSubqueueStatus> BacklogManager::Impl::InternalStatus() const {
  strand_.AssertCurrent();
  std::vector<InternalSubqueueStatus> all;
  for (std::size_t i = 0; i < subqueues_.size(); ++i) {
    const SubqueueBacklog& subqueue = *subqueues_[i];
    all.push_back({.read_level = subqueue.acks().read_level(),
                   .ack_level = subqueue.acks().ack_level(),
                   .task_id_block = {lease_.block().next(), lease_.block().end()},
                   .loaded_tasks = static_cast<std::int64_t>(subqueue.acks().outstanding()),
                   .max_read_level = subqueue.max_read_level(),
                   .approximate_count = ledger_.Count(static_cast<store::Subqueue>(i))});
  }
  return all;
}

bool BacklogManager::Impl::Idle() const {
  strand_.AssertCurrent();
  if (!writer_.idle() || !rewriter_.idle() || !expired_.idle() || !finished_.idle()) return false;
  return std::all_of(
      subqueues_.begin(), subqueues_.end(),
      [](const std::unique_ptr<SubqueueBacklog>& subqueue) { return subqueue->Idle(); });
}

}  // namespace millrace::backlog
