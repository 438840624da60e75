#include "millrace/sim_world/backlog_owner.h"

#include <sstream>
#include <utility>

#include "millrace/sim_world/answer_once.h"

namespace millrace::sim {
namespace {

constexpr char kSideKey[] = "sim";

std::string Name(const store::TaskKey& key) {
  return "(" + std::to_string(key.level.pass) + "," + std::to_string(key.level.id.value) + ")";
}

}  // namespace

BacklogOwner::BacklogOwner(OwnerContext& context, std::shared_ptr<SimHost> host, std::size_t loop,
                           store::PhysicalQueueKey queue, int queue_number,
                           const backlog::BacklogConfig& config)
    : context_(context),
      host_(std::move(host)),
      strand_(host_->loop(loop)),
      queue_(std::move(queue)),
      queue_number_(queue_number),
      config_(config),
      watch_(host_->store, host_->loop(loop), config.update_interval) {}

BacklogOwner::~BacklogOwner() = default;

void BacklogOwner::Post(Closure closure) {
  PostToHost(strand_, [self = shared_from_this(), run = std::move(closure)]() mutable {
    run();
    self->CheckLevels();
  });
}

void BacklogOwner::PostIn(Duration delay, Closure closure) {
  strand_.home().PostAt(strand_.clock().Now() + delay,
                        [self = shared_from_this(), run = std::move(closure)]() mutable {
                          self->Post(std::move(run));
                        });
}

Duration BacklogOwner::Some(Duration max) {
  return Duration(static_cast<std::int64_t>(
      context_.scheduler.random().Below(static_cast<std::uint64_t>(max.count()) + 1)));
}

void BacklogOwner::Start() {
  Post([this] {
    if (stopping_) {
      gone_ = true;
      return;
    }
    manager_ = std::make_unique<backlog::BacklogManager>(queue_, config_, strand_, host_->store,
                                                         watch_, context_.scheduler.random(),
                                                         context_.metrics, context_.log, *this);
    manager_->Start();
    manager_->WhenInitialized(
        [self = shared_from_this(), once = AnswerOnce(context_.judge, "a wait for initialization")](
            const Status& status) mutable {
          once.Answer();
          self->context_.coverage.Reach(status.ok() ? "initialized"
                                                    : "initialization failed or stopped");
          self->context_.judge.Expect(status.ok() == self->lease_held_ || self->stopping_, [] {
            return "the answer to a wait for initialization is wrong";
          });
        });
  });
}

void BacklogOwner::Enqueue(std::int64_t task, WallTime expiry, std::string payload,
                           bool listening) {
  Post([this, task, expiry, payload = std::move(payload), listening]() mutable {
    if (manager_ == nullptr) {
      context_.ledger.Refused(task);
      return;
    }
    backlog::NewTask row;
    row.create_time = host_->clock.WallNow();
    row.expiry_time = expiry;
    row.payload = std::move(payload);
    Submit(task, std::move(row), listening);
  });
}

void BacklogOwner::Submit(std::int64_t task, backlog::NewTask row, bool listening) {
  backlog::WriteOp op;
  op.creates.push_back(std::move(row));
  const bool* severed = &severed_;
  op.done = [self = shared_from_this(), task, listening, severed,
             once = AnswerOnce(context_.judge, "an append")](
                const backlog::WriteOutcome& outcome) mutable {
    once.Answer();
    self->strand_.AssertCurrent();
    self->context_.coverage.Reach("append answered " +
                                  std::string(StatusCodeName(outcome.status.code())));
    if (*severed || !listening) return;
    if (outcome.status.ok()) {
      self->context_.judge.Expect(outcome.created.size() == 1,
                                  [] { return "an append was answered without its key"; });
      self->context_.ledger.Accepted(task);
    } else if (outcome.status.code() != StatusCode::kUnknownOutcome) {
      self->context_.ledger.Refused(task);
    }
  };
  op.decided = [self = shared_from_this(), task, severed](bool applied) {
    if (!*severed) self->context_.ledger.AcceptDecided(task, applied);
  };
  if (context_.scheduler.random().Chance(1, 3)) {
    // The short form, which never tells what became of an unknown outcome.
    manager_->SpoolTask(std::move(op.creates[0]), std::move(op.done));
  } else {
    manager_->Submit(std::move(op));
  }
}

void BacklogOwner::PauseWork(bool paused) {
  Post([this, paused] {
    // Nothing but the end of a pause: the manager must say by itself when there are tasks.
    const bool resumes = paused_ && !paused;
    paused_ = paused;
    if (resumes) PollSoon();
  });
}

void BacklogOwner::OnLeaseHeld() {
  strand_.AssertCurrent();
  context_.judge.Expect(!lease_held_, [] { return "OnLeaseHeld came twice"; });
  lease_held_ = true;
  PostIn(Some(context_.swarm.faults.latency_max), [this] {
    if (manager_ != nullptr && !stopping_) manager_->BeginReading();
  });
}

bool BacklogOwner::OnTaskLoaded(const store::TaskRow& row) {
  strand_.AssertCurrent();
  context_.judge.Expect(loaded_once_.insert(row.key).second,
                        [&] { return "row " + Name(row.key) + " loaded twice"; });
  context_.judge.Expect(!ended_.contains(row.key) && !works_.contains(row.key), [&] {
    return "row " + Name(row.key) + " loaded though this owner had it already";
  });
  if (stopping_ || paused_ || !context_.scheduler.random().Chance(1, 10)) return false;
  context_.coverage.Reach("task claimed while loading");
  // Not inside the manager's call.
  strand_.Post([self = shared_from_this(), row]() mutable {
    if (self->manager_ == nullptr || self->stopping_) return;
    self->StartWork({row.key, row.create_time, row.expiry_time, std::move(row.payload)});
  });
  return true;
}

void BacklogOwner::OnTasksAvailable() {
  strand_.AssertCurrent();
  PollSoon();
}

void BacklogOwner::PollSoon() {
  if (poll_posted_ || paused_ || stopping_ || manager_ == nullptr) return;
  poll_posted_ = true;
  PostIn(Some(context_.swarm.work_max / 4), [this] {
    poll_posted_ = false;
    Poll();
  });
}

void BacklogOwner::Poll() {
  if (paused_ || stopping_ || manager_ == nullptr) return;
  const auto slots = static_cast<std::size_t>(context_.swarm.slots);
  // The end of a work polls again; new tasks are told.
  if (works_.size() >= slots || !manager_->HasLoaded()) return;
  for (backlog::LoadedTask& task : manager_->TakeLoaded(slots - works_.size()))
    StartWork(std::move(task));
}

bool BacklogOwner::Current() const {
  if (severed_ || manager_ == nullptr) return false;
  const QueueImage* image = context_.durable.Image(queue_);
  return image != nullptr && image->metadata.range_id == manager_->range_id();
}

void BacklogOwner::StartWork(backlog::LoadedTask task) {
  const store::TaskKey key = task.key;
  context_.judge.Expect(!ended_.contains(key),
                        [&] { return "row " + Name(key) + " was given out after its end"; });
  context_.judge.Expect(!works_.contains(key),
                        [&] { return "row " + Name(key) + " was given out twice at once"; });
  const auto number = FindTaskMarker(task.payload);
  if (!number) {
    context_.judge.Fail("a task with a damaged payload was given out");
    return;
  }
  if (Current()) context_.ledger.Delivered(*number);
  context_.scheduler.Trace("deliver", *number, key.level.id.value, host_->number);
  works_.emplace(key, Work{std::move(task), *number});
  PostIn(Some(context_.swarm.work_max), [this, key] { EndWork(key); });
}

void BacklogOwner::EndWork(store::TaskKey key) {
  const auto it = works_.find(key);
  if (it == works_.end() || stopping_ || manager_ == nullptr) return;
  Random& random = context_.scheduler.random();
  const std::uint64_t lot = random.Below(100);
  if (lot < 5) {
    context_.coverage.Reach("task put back");
    backlog::LoadedTask task = std::move(it->second.task);
    works_.erase(it);
    manager_->PutBack(std::move(task));
    PollSoon();
    return;
  }
  if (lot < 10) {
    context_.coverage.Reach("task rewritten by the manager");
    backlog::LoadedTask task = std::move(it->second.task);
    works_.erase(it);
    ended_.insert(key);
    manager_->RewriteTask(std::move(task));
    PollSoon();
    return;
  }
  if (lot < 20) {
    context_.coverage.Reach("task rewritten by an op");
    SubmitEnd(key, true);
    return;
  }
  if (!context_.swarm.backlog.delete_on_finish && lot < 80) {
    if (!severed_) {
      context_.ledger.FinishAsked(it->second.number);
      context_.ledger.Finished(it->second.number);
    }
    works_.erase(it);
    ended_.insert(key);
    manager_->CompleteTask(key);
    if (lot < 30) manager_->CompleteTask(key);  // Twice changes nothing.
    PollSoon();
    return;
  }
  if (!severed_) context_.ledger.FinishAsked(it->second.number);
  SubmitEnd(key, false);
}

void BacklogOwner::SubmitEnd(store::TaskKey key, bool rewrite) {
  const Work& work = works_.at(key);
  backlog::WriteOp op;
  op.accepts = !rewrite;
  op.ends.push_back(key);
  if (rewrite) {
    op.creates.push_back(
        {key.subqueue, work.task.create_time, work.task.expiry_time, work.task.payload});
  } else if (context_.scheduler.random().Chance(1, 10)) {
    op.ends_as = backlog::Total::kDead;
    op.side_puts.push_back({"dead" + std::to_string(work.number), "x"});
  }
  op.done = [self = shared_from_this(), key, rewrite,
             once = AnswerOnce(context_.judge, "the end of a task")](
                const backlog::WriteOutcome& outcome) mutable {
    once.Answer();
    self->OnEndDone(key, rewrite, outcome.status);
  };
  op.decided = [self = shared_from_this(), key, rewrite](bool applied) {
    self->OnEndDecided(key, rewrite, applied);
  };
  manager_->Submit(std::move(op));
}

void BacklogOwner::OnEndDone(store::TaskKey key, bool rewrite, const Status& status) {
  const auto it = works_.find(key);
  context_.judge.Expect(it != works_.end(),
                        [] { return "an end was answered for a task that is not in work"; });
  if (it == works_.end()) return;
  context_.coverage.Reach("end answered " + std::string(StatusCodeName(status.code())));
  switch (status.code()) {
    case StatusCode::kOk:
      if (!rewrite && !severed_) context_.ledger.Finished(it->second.number);
      ended_.insert(key);
      works_.erase(it);
      PollSoon();
      return;
    case StatusCode::kUnknownOutcome:  // `decided` follows, or an unload.
    case StatusCode::kFenced:
    case StatusCode::kShuttingDown:
      return;
    default:
      PostIn(std::chrono::milliseconds(20), [this, key, rewrite] {
        if (works_.contains(key) && !stopping_ && manager_ != nullptr) SubmitEnd(key, rewrite);
      });
  }
}

void BacklogOwner::OnEndDecided(store::TaskKey key, bool rewrite, bool applied) {
  const auto it = works_.find(key);
  context_.judge.Expect(it != works_.end(),
                        [] { return "an end was decided for a task that is not in work"; });
  if (it == works_.end()) return;
  if (!rewrite && !severed_) context_.ledger.FinishDecided(it->second.number, applied);
  if (applied) {
    ended_.insert(key);
    works_.erase(it);
    PollSoon();
  } else if (!stopping_) {
    PostIn(Some(std::chrono::milliseconds(20)), [this, key, rewrite] {
      if (works_.contains(key) && !stopping_ && manager_ != nullptr) SubmitEnd(key, rewrite);
    });
  }
}

void BacklogOwner::OnBuildWrite(store::QueueWrite& write) {
  strand_.AssertCurrent();
  context_.judge.Expect(!write_open_,
                        [] { return "a second write was built before the first one ended"; });
  write_open_ = true;
  if (!context_.scheduler.random().Chance(1, 4)) return;
  write.side_puts.push_back({kSideKey, std::to_string(++side_value_)});
}

void BacklogOwner::OnWriteEnd(bool applied) {
  strand_.AssertCurrent();
  context_.judge.Expect(write_open_, [] { return "a write ended that was never built"; });
  write_open_ = false;
  if (!applied) context_.coverage.Reach("write ended not applied");
}

void BacklogOwner::OnUnloadRequested(backlog::UnloadCause cause, const Status& status) {
  strand_.AssertCurrent();
  context_.coverage.Reach("unload " + std::string(backlog::UnloadCauseName(cause)));
  context_.scheduler.Trace("unload", queue_number_, host_->number,
                           static_cast<std::int64_t>(cause));
  context_.judge.Expect(++unload_requests_ == 1, [] { return "unload was asked for twice"; });
  context_.judge.Expect(!status.ok(), [] { return "unload was asked for without a reason"; });
  strand_.Post([self = shared_from_this()] { self->StopOnStrand(); });
}

void BacklogOwner::Stop() {
  Post([this] { StopOnStrand(); });
}

void BacklogOwner::StopOnStrand() {
  if (manager_ == nullptr) {
    stopping_ = true;
    return;
  }
  stopping_ = true;
  // Stop twice is allowed; each is answered.
  manager_->Stop(
      [self = shared_from_this(), once = AnswerOnce(context_.judge, "a stop")]() mutable {
        once.Answer();
        self->strand_.Post([self] {
          if (self->manager_ == nullptr) return;
          self->CheckLevels();
          self->manager_.reset();
          self->works_.clear();
          self->gone_ = true;
          self->context_.scheduler.Trace("gone", self->queue_number_, self->host_->number);
        });
      });
}

void BacklogOwner::TakeSnapshot() {
  snapshot_.reset();
  Post([this] {
    OwnerSnapshot& snapshot = snapshot_.emplace();
    if (manager_ == nullptr) return;
    snapshot.lease_held = manager_->lease_held();
    snapshot.range_id = manager_->range_id();
    snapshot.count = manager_->TotalApproximateBacklogCount();
    snapshot.head_age = manager_->BacklogHeadAge();
    snapshot.idle = works_.empty() && manager_->Idle();
  });
}

void BacklogOwner::CheckLevels() {
  if (manager_ == nullptr) return;
  std::vector<backlog::InternalSubqueueStatus> now = manager_->InternalStatus();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const backlog::InternalSubqueueStatus& s = now[i];
    const store::TaskLevel max{s.read_level.pass, s.max_read_level};
    context_.judge.Expect(s.ack_level <= s.read_level && s.read_level <= max, [&] {
      std::ostringstream out;
      out << "levels out of order: ack " << s.ack_level.id.value << " read "
          << s.read_level.id.value << " max " << s.max_read_level.value;
      return out.str();
    });
    context_.judge.Expect(s.approximate_count >= 0 && s.loaded_tasks >= 0,
                          [] { return "a count is negative"; });
    if (i < last_status_.size()) {
      const backlog::InternalSubqueueStatus& before = last_status_[i];
      context_.judge.Expect(s.ack_level >= before.ack_level && s.read_level >= before.read_level &&
                                s.max_read_level >= before.max_read_level,
                            [] { return "a level went back"; });
    }
    if (!Current() || !lease_held_) continue;
    const QueueImage* image = context_.durable.Image(queue_);
    for (const auto& [key, row] : image->rows) {
      if (key.subqueue != static_cast<store::Subqueue>(i) || key.level > s.ack_level) continue;
      const auto task = FindTaskMarker(row.payload);
      context_.judge.Expect(task && context_.ledger.MayBeGone(*task), [&] {
        return "the ack level passed row " + Name(key) + ", which is not finished";
      });
    }
  }
  last_status_ = std::move(now);
}

}  // namespace millrace::sim
