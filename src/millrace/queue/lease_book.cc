#include "millrace/queue/lease_book.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/queue/bytes.h"
#include "millrace/queue/lease_token.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kChunksPerRead = 1'000;
constexpr std::size_t kExistenceReadsInFlight = 64;
constexpr Duration kExpiryRetryWait = std::chrono::seconds(1);

Status Unloading() { return {StatusCode::kShuttingDown, "the queue is being unloaded"}; }

// Gathers the outcomes of the items of one call, which arrive in any order.
class Outcomes {
 public:
  Outcomes(std::size_t count, LeaseBook::ItemCallback done)
      : results_(count), waiting_(count), done_(std::move(done)) {}

  void Set(std::size_t index, QueueError error) {
    results_[index] = std::move(error);
    if (--waiting_ == 0) done_(std::move(results_));
  }

 private:
  std::vector<QueueError> results_;
  std::size_t waiting_;
  LeaseBook::ItemCallback done_;
};

}  // namespace

std::string DeadTaskKey(TaskId first_id) {
  std::string key(1, kDeadTaskKind);
  AppendFixed64(key, static_cast<std::uint64_t>(first_id.value));
  return key;
}

LeaseBook::LeaseBook(store::PhysicalQueueKey key, const QueueConfig& config, exec::Strand& strand,
                     store::AsyncTaskStore& store, backlog::BacklogManager& manager,
                     exec::Gate& gate, Closure on_room)
    : key_(std::move(key)),
      config_(config),
      strand_(strand),
      store_(store),
      manager_(manager),
      gate_(gate),
      on_room_(std::move(on_room)),
      timer_(strand),
      retry_timer_(strand) {}

void LeaseBook::Recover(store::StatusCallback done) { ReadChunks(std::string(), std::move(done)); }

void LeaseBook::ReadChunks(std::string after, store::StatusCallback done) {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return done(Unloading());
  store_.ReadSideRows(
      key_, std::string(1, kLeaseChunkKind), std::move(after), kChunksPerRead, strand_,
      [this, hold = std::move(hold), done = std::move(done)](Result<store::SidePage> page) mutable {
        strand_.AssertCurrent();
        if (!page.ok()) return done(page.status());
        for (const store::SideRow& row : page->rows) {
          const Status loaded = journal_.Load(ParseLeaseChunkKey(row.key), row.value);
          if (!loaded.ok()) return done(loaded);
        }
        if (page->more) return ReadChunks(page->rows.back().key, std::move(done));
        CheckExistence(journal_.TakeRecovered(), std::move(done));
      });
}

void LeaseBook::CheckExistence(std::map<TaskId, LeaseJournal::Recovered> recovered,
                               store::StatusCallback done) {
  // A chunk outlives the first of its leases that end, so some of what it names may be finished:
  // only a task whose row is still there is leased.
  struct State {
    std::map<TaskId, LeaseJournal::Recovered> recovered;
    std::map<TaskId, LeaseJournal::Recovered>::iterator next;
    std::vector<store::TaskKey> held;
    std::size_t in_flight = 0;
    Status error;
    store::StatusCallback done;
  };
  auto state = std::make_shared<State>();
  state->recovered = std::move(recovered);
  state->next = state->recovered.begin();
  state->done = std::move(done);

  auto step = std::make_shared<UniqueFunction<void()>>();
  *step = [this, state, weak = std::weak_ptr(step)] {
    strand_.AssertCurrent();
    while (state->error.ok() && state->next != state->recovered.end() &&
           state->in_flight < kExistenceReadsInFlight) {
      exec::Gate::Holder hold = gate_.TryEnter();
      if (!hold) {
        state->error = Unloading();
        break;
      }
      const LeaseJournal::Recovered& entry = state->next->second;
      ++state->next;
      ++state->in_flight;
      const store::TaskKey task = entry.record.task;
      store_.ReadTasks(key_, task.subqueue, task.level, task.level, 1, 1, strand_,
                       [this, hold = std::move(hold), state, &entry,
                        step = weak.lock()](Result<store::TaskPage> page) {
                         strand_.AssertCurrent();
                         --state->in_flight;
                         if (!page.ok()) {
                           state->error = page.status();
                         } else if (!page->rows.empty() || MR_MUTANT(finished_lease_recovered)) {
                           const LeaseRecord& record = entry.record;
                           const Duration most = MR_MUTANT(remembered_lease_unclamped)
                                                     ? std::chrono::hours(1'000)
                                                     : record.duration;
                           const Duration left = std::clamp(
                               record.deadline - strand_.clock().WallNow(), Duration::zero(), most);
                           Lease& lease = table_.Add({.task = record.task,
                                                      .epoch = record.epoch,
                                                      .counter = record.counter,
                                                      .deadline = strand_.clock().Now() + left,
                                                      .duration = record.duration,
                                                      .worker_id = record.worker_id});
                           journal_.Adopt(lease, entry.chunk);
                           state->held.push_back(record.task);
                         }
                         (*step)();
                       });
    }
    if (state->in_flight > 0 || !state->done) return;
    if (state->error.ok()) {
      manager_.AdoptTasks(state->held);
      journal_.FinishRecovery();
      if (journal_.dirty()) manager_.RequestWrite(false);
      ArmTimer();
    }
    std::exchange(state->done, {})(state->error);
  };
  (*step)();
}

std::string LeaseBook::Grant(const store::TaskKey& task, Duration duration,
                             const std::string& worker_id) {
  strand_.AssertCurrent();
  Lease& lease = table_.Add({.task = task,
                             .epoch = manager_.range_id(),
                             .counter = ++last_counter_,
                             .deadline = strand_.clock().Now() + duration,
                             .duration = duration,
                             .worker_id = worker_id});
  if (!MR_MUTANT(lease_not_remembered)) journal_.Remember(lease);
  ++counts_.granted;
  ArmTimer();
  return EncodeLeaseToken({.queue_uid = queue_uid_,
                           .epoch = lease.epoch,
                           .counter = lease.counter,
                           .task = task.level.id});
}

Lease* LeaseBook::Usable(std::string_view token, QueueError* error) {
  strand_.AssertCurrent();
  const std::optional<LeaseToken> decoded = DecodeLeaseToken(token);
  if (!decoded) {
    *error = {rpc::Code::kInvalidArgument, Reason::kNone, "not a lease token"};
    return nullptr;
  }
  Lease* lease = decoded->queue_uid == queue_uid_ ? table_.FindToken(*decoded) : nullptr;
  if (lease != nullptr &&
      (lease->state == LeaseState::kEnding || lease->state == LeaseState::kDeciding)) {
    *error = {rpc::Code::kUnavailable, Reason::kOutcomeUnknown,
              "another call that ends this lease is under way"};
    return nullptr;
  }
  const bool expiring = lease != nullptr && lease->state == LeaseState::kExpiring &&
                        !MR_MUTANT(expiring_lease_usable);
  const bool over = lease != nullptr && lease->state == LeaseState::kActive &&
                    lease->deadline <= strand_.clock().Now() && !MR_MUTANT(late_token_accepted);
  if (lease == nullptr || expiring || over) {
    ++counts_.lost_tokens;
    *error = QueueError::LeaseLost();
    return nullptr;
  }
  return lease;
}

void LeaseBook::Complete(const std::vector<std::string>& tokens, ItemCallback done) {
  strand_.AssertCurrent();
  std::vector<QueueError> results(tokens.size());
  std::vector<store::TaskKey> tasks;
  std::vector<std::size_t> indexes;
  tasks.reserve(tokens.size());
  indexes.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Lease* lease = Usable(tokens[i], &results[i]);
    if (lease == nullptr) continue;
    table_.SetState(*lease, LeaseState::kEnding);
    tasks.push_back(lease->task);
    indexes.push_back(i);
  }
  if (tasks.empty()) {
    strand_.Post([done = std::move(done), results = std::move(results)]() mutable {
      done(std::move(results));
    });
    return;
  }
  backlog::WriteOp op;
  op.accepts = false;
  op.ends = tasks;
  op.decided = [this, tasks](bool applied) { OnDecided(tasks, applied); };
  op.done = [this, tasks = std::move(tasks), indexes = std::move(indexes),
             results = std::move(results),
             done = std::move(done)](backlog::WriteOutcome outcome) mutable {
    OnEndWrite(tasks, outcome.status);
    if (!outcome.status.ok()) {
      for (const std::size_t index : indexes) results[index] = QueueError::From(outcome.status);
    }
    done(std::move(results));
  };
  manager_.Submit(std::move(op));
}

void LeaseBook::Fail(std::vector<FailItem> items, ItemCallback done) {
  ReturnItems(std::move(items), true, std::move(done));
}

void LeaseBook::Release(const std::vector<std::string>& tokens, ItemCallback done) {
  std::vector<FailItem> items;
  items.reserve(tokens.size());
  for (const std::string& token : tokens)
    items.push_back({.token = token, .error_message = {}, .permanent = false});
  ReturnItems(std::move(items), false, std::move(done));
}

void LeaseBook::ReturnItems(std::vector<FailItem> items, bool charge_attempt, ItemCallback done) {
  strand_.AssertCurrent();
  auto outcomes = std::make_shared<Outcomes>(items.size(), std::move(done));
  for (std::size_t i = 0; i < items.size(); ++i) {
    QueueError error;
    Lease* lease = Usable(items[i].token, &error);
    if (lease == nullptr) {
      strand_.Post([outcomes, i, error = std::move(error)]() mutable {
        outcomes->Set(i, std::move(error));
      });
      continue;
    }
    table_.SetState(*lease, LeaseState::kEnding);
    ReturnTask(*lease,
               {.charge_attempt = charge_attempt,
                .permanent = items[i].permanent,
                .error_message = std::move(items[i].error_message)},
               [outcomes, i](QueueError result) { outcomes->Set(i, std::move(result)); });
  }
}

void LeaseBook::ReturnTask(const Lease& lease, Return how, ReturnCallback done) {
  strand_.AssertCurrent();
  const store::TaskKey task = lease.task;
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) {
    OnEndWrite({task}, Unloading());
    return done(QueueError::From(Unloading()));
  }
  store_.ReadTasks(key_, task.subqueue, task.level, task.level, 1, 1, strand_,
                   [this, hold = std::move(hold), task, how = std::move(how),
                    done = std::move(done)](Result<store::TaskPage> page) mutable {
                     OnRowRead(task, std::move(how), std::move(page), std::move(done));
                   });
}

void LeaseBook::OnRowRead(const store::TaskKey& task, Return how, Result<store::TaskPage> page,
                          ReturnCallback done) {
  strand_.AssertCurrent();
  if (!page.ok() || stopped_) {
    const Status status = page.ok() ? Unloading() : page.status();
    OnEndWrite({task}, status);
    return done(QueueError::From(status));
  }
  backlog::WriteOp op;
  op.accepts = false;
  op.ends = {task};
  Result<TaskRecord> record = page->rows.empty()
                                  ? Status(StatusCode::kCorruption, "a leased task has no row")
                                  : DecodeTaskRecord(page->rows.front().payload);
  if (!record.ok()) {
    op.ends_as = backlog::Total::kDroppedInvalid;
  } else {
    const store::TaskRow& row = page->rows.front();
    if (record->first_id.value == 0 && !MR_MUTANT(public_id_changes)) {
      record->first_id = task.level.id;
    }
    if (!record->enqueue_time.is_set()) record->enqueue_time = row.create_time;
    if (MR_MUTANT(release_charged)) how.charge_attempt = true;
    if (how.charge_attempt && !MR_MUTANT(attempt_not_counted) &&
        record->attempts_ended < kAttemptsEndedMax) {
      ++record->attempts_ended;
    }
    if (how.charge_attempt && MR_MUTANT(attempt_counted_twice)) ++record->attempts_ended;
    const std::int32_t allowed =
        record->max_attempts + (MR_MUTANT(max_attempts_off_by_one) ? 1 : 0);
    const bool used_up = record->max_attempts > 0 && record->attempts_ended >= allowed;
    if (how.permanent || (how.charge_attempt && used_up)) {
      op.ends_as = backlog::Total::kDead;
      if (!MR_MUTANT(dead_task_dropped)) {
        op.side_puts.push_back(
            {DeadTaskKey(record->first_id), EncodeDeadTask({.death_time = strand_.clock().WallNow(),
                                                            .error_message = how.error_message,
                                                            .record = EncodeTaskRecord(*record)})});
      }
    } else {
      op.creates.push_back({.subqueue = task.subqueue,
                            .create_time = strand_.clock().WallNow(),
                            .expiry_time = {},
                            .payload = EncodeTaskRecord(*record)});
    }
  }
  op.decided = [this, task](bool applied) { OnDecided({task}, applied); };
  op.done = [this, task, done = std::move(done)](backlog::WriteOutcome outcome) mutable {
    OnEndWrite({task}, outcome.status);
    done(QueueError::From(outcome.status));
  };
  manager_.Submit(std::move(op));
}

std::vector<QueueError> LeaseBook::Extend(const std::vector<std::string>& tokens,
                                          Duration duration) {
  strand_.AssertCurrent();
  std::vector<QueueError> results(tokens.size());
  const Instant deadline = strand_.clock().Now() + duration;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Lease* lease = Usable(tokens[i], &results[i]);
    if (lease == nullptr) continue;
    table_.SetDeadline(*lease, deadline, duration);
    journal_.Remember(*lease);
  }
  if (journal_.dirty()) manager_.RequestWrite(false);
  ArmTimer();
  return results;
}

void LeaseBook::OnEndWrite(const std::vector<store::TaskKey>& tasks, const Status& status) {
  strand_.AssertCurrent();
  for (const store::TaskKey& task : tasks) {
    Lease* lease = table_.Find(task.level.id);
    MR_CHECK(lease != nullptr);
    if (status.ok()) {
      EndLease(task.level.id);
    } else if (status.code() == StatusCode::kUnknownOutcome) {
      table_.SetState(*lease, LeaseState::kDeciding);
    } else {
      Reactivate(*lease);
    }
  }
  ArmTimer();
  if (status.ok() && on_room_) on_room_();
}

void LeaseBook::OnDecided(const std::vector<store::TaskKey>& tasks, bool applied) {
  OnEndWrite(tasks,
             applied ? OkStatus() : Status(StatusCode::kUnavailable, "the write did not happen"));
}

void LeaseBook::EndLease(TaskId task) {
  strand_.AssertCurrent();
  Lease* lease = table_.Find(task);
  journal_.Forget(*lease);
  table_.Remove(task);
  if (journal_.dirty()) manager_.RequestWrite(false);
}

void LeaseBook::Reactivate(Lease& lease) {
  strand_.AssertCurrent();
  table_.SetState(lease, LeaseState::kActive);
  // It was left out of the journal while it seemed to end.
  if (lease.chunk == 0) journal_.Remember(lease);
}

void LeaseBook::BuildWrite(store::QueueWrite& write) {
  strand_.AssertCurrent();
  journal_.BuildWrite(table_, strand_.clock().Now(), strand_.clock().WallNow(), write);
}

void LeaseBook::WriteEnded(bool applied) {
  strand_.AssertCurrent();
  journal_.WriteEnded(table_, applied);
}

void LeaseBook::ArmTimer() {
  strand_.AssertCurrent();
  if (stopped_) return;
  const Instant next =
      expiring_ >= config_.rewrites_in_flight_max ? Instant::Max() : table_.NextDeadline();
  if (next == Instant::Max()) {
    timer_.Cancel();
    return;
  }
  // A timer that is early by now only looks again; moving it for every lease would cost more than
  // that.
  if (timer_.armed() && timer_.when() <= next) return;
  timer_.Arm(next, [this] { EndExpired(); });
}

void LeaseBook::EndExpired() {
  strand_.AssertCurrent();
  if (stopped_) return;
  const Instant now = strand_.clock().Now();
  while (expiring_ < config_.rewrites_in_flight_max) {
    Lease* lease = table_.FirstExpired(now);
    if (lease == nullptr) break;
    table_.SetState(*lease, LeaseState::kExpiring);
    ++counts_.expired;
    StartExpiring(*lease);
  }
  ArmTimer();
}

void LeaseBook::StartExpiring(Lease& lease) {
  strand_.AssertCurrent();
  ++expiring_;
  const TaskId task = lease.task.level.id;
  ReturnTask(lease, {.charge_attempt = true, .permanent = false, .error_message = "lease expired"},
             [this, task](const QueueError& error) {
               strand_.AssertCurrent();
               --expiring_;
               Lease* left = table_.Find(task);
               if (left != nullptr && left->state == LeaseState::kActive) {
                 // Surely not written: its time is still up, and nobody but this retry may touch
                 // it.
                 MR_CHECK(!error.ok());
                 table_.SetState(*left, LeaseState::kExpiring);
                 retry_.push_back(task);
                 if (!stopped_ && !retry_timer_.armed()) {
                   retry_timer_.Arm(strand_.clock().Now() + kExpiryRetryWait, [this] {
                     strand_.AssertCurrent();
                     for (const TaskId again : std::exchange(retry_, {})) {
                       Lease* expired = table_.Find(again);
                       if (expired != nullptr && expired->state == LeaseState::kExpiring)
                         StartExpiring(*expired);
                     }
                   });
                 }
               }
               ArmTimer();
             });
}

void LeaseBook::Stop() {
  strand_.AssertCurrent();
  stopped_ = true;
  timer_.Cancel();
  retry_timer_.Cancel();
}

}  // namespace millrace::queue
