#include "millrace/queue/queue_runtime.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/queue/bytes.h"

namespace millrace::queue {
namespace {

// Side row with the queue's uid: one version byte and eight bytes, big endian.
constexpr char kUidKey[] = "Q";
constexpr std::uint8_t kUidVersion = 1;

std::string EncodeUid(std::uint64_t uid) {
  std::string value(1, static_cast<char>(kUidVersion));
  AppendFixed64(value, uid);
  return value;
}

bool DecodeUid(std::string_view bytes, std::uint64_t* uid) {
  ByteReader reader(bytes);
  std::uint8_t version = 0;
  return reader.Byte(&version) && version == kUidVersion && reader.Fixed64(uid) && reader.done();
}

// A reply holds at most this much payload, or one task: gRPC clients refuse messages above 4 MiB
// unless told otherwise, and a refused reply would strand its leases.
constexpr std::size_t kReplyBytesMax = 3u << 20;

std::int64_t TotalOf(const backlog::Totals& totals, backlog::Total which) {
  return totals[static_cast<std::size_t>(which)];
}

}  // namespace

QueueCountsView CountsFrom(const backlog::Totals& totals, std::int64_t leased) {
  QueueCountsView counts;
  counts.accepted = TotalOf(totals, backlog::Total::kAccepted);
  counts.done = TotalOf(totals, backlog::Total::kDone);
  counts.dead = TotalOf(totals, backlog::Total::kDead);
  counts.dropped = TotalOf(totals, backlog::Total::kDroppedExpired) +
                   TotalOf(totals, backlog::Total::kDroppedInvalid);
  const std::int64_t stored = counts.accepted - counts.done - counts.dead - counts.dropped;
  // An owner that was overtaken and does not know it yet may have found leases of the next one.
  counts.leased = std::min(leased, stored);
  counts.waiting = stored - counts.leased;
  return counts;
}

QueueRuntime::QueueRuntime(store::PhysicalQueueKey key, const QueueEnvironment& environment,
                           exec::Executor& home)
    : key_(std::move(key)),
      env_(environment),
      strand_(home),
      manager_(key_, env_.config.backlog, strand_, env_.store, env_.owner_watch, env_.random,
               env_.backlog_metrics, env_.log, *this),
      matcher_(strand_, *this, env_.config.pollers_max),
      leases_(key_, env_.config, strand_, env_.store, manager_, gate_,
              [this] {
                // Poll calls may have waited because the table was full.
                if (matcher_.pollers() > 0) matcher_.Pump();
              }),
      held_timer_(strand_),
      last_used_ns_(home.clock().Now().ns) {}

QueueRuntime::~QueueRuntime() = default;

void QueueRuntime::Start(UnloadCallback on_unload) {
  strand_.Post([this, self = shared_from_this(), on_unload = std::move(on_unload)]() mutable {
    strand_.AssertCurrent();
    if (state_ != State::kNew) return;  // Stopped before it began.
    state_ = State::kLoading;
    on_unload_ = std::move(on_unload);
    manager_.Start();
  });
}

void QueueRuntime::OnLeaseHeld() {
  strand_.AssertCurrent();
  if (state_ == State::kLoading) LoadUid();
}

void QueueRuntime::LoadUid() {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return;
  env_.store.ReadSideRows(
      key_, kUidKey, std::string(), 1, strand_,
      [this, hold = std::move(hold)](Result<store::SidePage> page) {
        strand_.AssertCurrent();
        if (state_ != State::kLoading) return;
        if (!page.ok()) return RequestUnload(backlog::UnloadCause::kInitError, page.status());
        if (page->rows.empty()) {
          uid_ = env_.random.Next();
        } else if (DecodeUid(page->rows.front().value, &uid_)) {
          uid_stored_ = true;
        } else {
          return RequestUnload(backlog::UnloadCause::kInitError,
                               Status(StatusCode::kCorruption, "the queue's uid does not parse"));
        }
        leases_.SetQueueUid(uid_);
        leases_.Recover([this](const Status& status) {
          strand_.AssertCurrent();
          if (state_ != State::kLoading) return;
          if (!status.ok()) return RequestUnload(backlog::UnloadCause::kInitError, status);
          OnReady();
        });
      });
}

void QueueRuntime::OnReady() {
  strand_.AssertCurrent();
  state_ = State::kReady;
  recovered_ = true;
  held_timer_.Cancel();
  manager_.BeginReading();
  for (ReadyCallback& op : std::exchange(held_, {})) op(OkStatus());
}

void QueueRuntime::Run(ReadyCallback op) {
  strand_.Post([this, self = shared_from_this(), op = std::move(op)]() mutable {
    strand_.AssertCurrent();
    last_used_ns_.store(strand_.clock().Now().ns, std::memory_order_relaxed);
    switch (state_) {
      case State::kReady:
        return op(OkStatus());
      case State::kNew:
      case State::kLoading:
        if (held_.size() >= env_.config.held_calls_max) {
          return op(
              Status(StatusCode::kResourceExhausted, "too many calls wait for this queue to load"));
        }
        if (const Status health = env_.store.Health(); !health.ok()) {
          return op(Status(StatusCode::kUnavailable,
                           "the queue cannot be loaded: " + std::string(health.message())));
        }
        if (!held_timer_.armed()) {
          held_timer_.Arm(strand_.clock().Now() + env_.config.load_wait_max, [this] {
            strand_.AssertCurrent();
            FailHeld(Status(StatusCode::kUnavailable, "the queue could not be loaded in time"));
          });
        }
        held_.push_back(std::move(op));
        return;
      case State::kStopping:
      case State::kStopped:
        return op(Status(StatusCode::kShuttingDown, "the queue is being unloaded"));
    }
  });
}

void QueueRuntime::FailHeld(const Status& status) {
  strand_.AssertCurrent();
  held_timer_.Cancel();
  for (ReadyCallback& op : std::exchange(held_, {})) op(status);
}

void QueueRuntime::RequestUnload(backlog::UnloadCause cause, const Status& status) {
  strand_.AssertCurrent();
  if (!on_unload_) return;
  // Calls held now get the reason itself; later ones reach a new instance.
  FailHeld(status.ok() ? Status(StatusCode::kShuttingDown, "the queue is being unloaded") : status);
  std::exchange(on_unload_, {})(cause, status);
}

void QueueRuntime::OnUnloadRequested(backlog::UnloadCause cause, const Status& status) {
  RequestUnload(cause, status);
}

void QueueRuntime::UnloadIfIdle(Instant before) {
  strand_.Post([this, self = shared_from_this(), before] {
    strand_.AssertCurrent();
    if (state_ != State::kReady || last_used() > before || calls_open_ > 0 ||
        matcher_.pollers() > 0 || (leases_.size() > 0 && !MR_MUTANT(unloaded_while_leased)) ||
        census_ != nullptr) {
      return;
    }
    RequestUnload(backlog::UnloadCause::kIdle, OkStatus());
  });
}

void QueueRuntime::Stop(Closure done) {
  strand_.Post([this, self = shared_from_this(), done = std::move(done)]() mutable {
    strand_.AssertCurrent();
    MR_CHECK(state_ != State::kStopping && state_ != State::kStopped);
    state_ = State::kStopping;
    on_unload_ = {};
    const Status stopping(StatusCode::kShuttingDown, "the queue is being unloaded");
    FailHeld(stopping);
    matcher_.Close(stopping);
    leases_.Stop();
    manager_.Stop([this, self, done = std::move(done)]() mutable {
      gate_.Close([this, self, done = std::move(done)]() mutable {
        strand_.Post([this, self, done = std::move(done)]() mutable {
          strand_.AssertCurrent();
          state_ = State::kStopped;
          done();
        });
      });
    });
  });
}

void QueueRuntime::Enqueue(std::vector<backlog::NewTask> tasks, EnqueueCallback done) {
  strand_.AssertCurrent();
  ++calls_open_;
  backlog::WriteOp op;
  op.creates = std::move(tasks);
  op.done = [this, done = std::move(done)](backlog::WriteOutcome outcome) mutable {
    --calls_open_;
    done(QueueError::From(outcome.status), outcome.created);
  };
  manager_.Submit(std::move(op));
}

matching::Matcher::PollerId QueueRuntime::Lease(LeaseParams params, LeaseCallback done) {
  strand_.AssertCurrent();
  matching::PollRequest request;
  request.max_tasks = params.max_tasks;
  request.deadline = params.wait_until;
  request.done = [this, params = std::move(params),
                  done = std::move(done)](matching::PollResult result) mutable {
    OnPolled(params, std::move(result), done);
  };
  return matcher_.AddPoller(std::move(request));
}

void QueueRuntime::CancelLease(matching::Matcher::PollerId poller) {
  strand_.AssertCurrent();
  matcher_.CancelPoller(poller);
}

void QueueRuntime::OnPolled(const LeaseParams& params, matching::PollResult result,
                            LeaseCallback& done) {
  strand_.AssertCurrent();
  std::vector<GrantedTask> granted;
  granted.reserve(result.tasks.size());
  for (backlog::LoadedTask& task : result.tasks) {
    GrantedTask& out = granted.emplace_back();  // Room was reserved: nothing moves.
    out.payload = std::move(task.payload);
    Result<TaskRecord> record = DecodeTaskRecord(out.payload);
    if (!record.ok()) {
      env_.log.Write(LogLevel::kError, "queue", "dropping a task whose stored bytes do not parse",
                     {{"queue", std::string_view(key_.persistence_name)},
                      {"task_id", task.key.level.id.value}});
      if (!MR_MUTANT(invalid_row_kept)) Drop(task.key);
      granted.pop_back();
      continue;
    }
    out.record = std::move(*record);
    out.first_id = out.record.first_id.value == 0 ? task.key.level.id : out.record.first_id;
    out.enqueue_time =
        out.record.enqueue_time.is_set() ? out.record.enqueue_time : task.create_time;
    out.token = leases_.Grant(task.key, params.duration, params.worker_id);
  }
  if (!granted.empty()) manager_.RequestWrite(false);
  last_used_ns_.store(strand_.clock().Now().ns, std::memory_order_relaxed);
  done(QueueError::From(result.status), std::move(granted));
}

void QueueRuntime::Drop(const store::TaskKey& task) {
  backlog::WriteOp op;
  op.accepts = false;
  op.ends = {task};
  op.ends_as = backlog::Total::kDroppedInvalid;
  op.done = [](const backlog::WriteOutcome&) {};
  manager_.Submit(std::move(op));
}

bool QueueRuntime::OnTaskLoaded(const store::TaskRow& row) {
  return leases_.Holds(row.key.level.id) && !MR_MUTANT(remembered_lease_handed_out);
}

void QueueRuntime::OnTasksAvailable() {
  strand_.AssertCurrent();
  if (state_ == State::kReady && matcher_.pollers() > 0) matcher_.Pump();
}

bool QueueRuntime::HasLoaded() const { return leases_.HasRoom() && manager_.HasLoaded(); }

std::vector<backlog::LoadedTask> QueueRuntime::TakeLoaded(std::size_t max) {
  std::vector<backlog::LoadedTask> tasks = manager_.TakeLoaded(max);
  std::size_t bytes = 0;
  std::size_t fit = 0;
  while (fit < tasks.size()) {
    bytes += tasks[fit].payload.size();
    if (fit > 0 && bytes > kReplyBytesMax) break;
    ++fit;
  }
  while (tasks.size() > fit) {
    manager_.PutBack(std::move(tasks.back()));
    tasks.pop_back();
  }
  return tasks;
}

void QueueRuntime::OnBuildWrite(store::QueueWrite& write) {
  strand_.AssertCurrent();
  // A queue that is given up before its side rows were read must not write others over them.
  if (!recovered_) return;
  if (!uid_stored_) {
    write.side_puts.push_back({kUidKey, EncodeUid(uid_)});
    uid_writing_ = true;
  }
  leases_.BuildWrite(write);
}

void QueueRuntime::OnWriteEnd(bool applied) {
  strand_.AssertCurrent();
  if (std::exchange(uid_writing_, false) && applied) uid_stored_ = true;
  leases_.WriteEnded(applied);
  UpdateGauges();
}

void QueueRuntime::UpdateGauges() {
  strand_.AssertCurrent();
  const QueueView view = Describe();
  gauges_.waiting.store(view.counts.waiting, std::memory_order_relaxed);
  gauges_.leased.store(view.counts.leased, std::memory_order_relaxed);
  gauges_.dead.store(view.counts.dead, std::memory_order_relaxed);
  gauges_.ack_lag.store(view.backlog.max_read_level.value - view.backlog.ack_level.id.value,
                        std::memory_order_relaxed);
  gauges_.head_create_ns.store(
      view.oldest_age ? (strand_.clock().WallNow() - *view.oldest_age).ns : 0,
      std::memory_order_relaxed);
}

void QueueRuntime::OnTasksEnded(const std::vector<store::TaskKey>& tasks) {
  strand_.AssertCurrent();
  if (census_ != nullptr) census_->OnEnded(tasks);
}

QueueView QueueRuntime::Describe() const {
  strand_.AssertCurrent();
  QueueView view;
  view.counts = CountsFrom(manager_.totals(), static_cast<std::int64_t>(leases_.size()));
  if (view.counts.waiting > 0) view.oldest_age = manager_.BacklogHeadAge();
  view.pollers = matcher_.pollers();
  view.range_id = manager_.range_id();
  view.backlog = manager_.InternalStatus().front();
  return view;
}

void QueueRuntime::CountRows(UniqueFunction<void(Result<RowCounts>)> done) {
  strand_.AssertCurrent();
  if (census_ != nullptr) {
    strand_.Post([done = std::move(done)]() mutable {
      done(Status(StatusCode::kUnavailable,
                  "the rows of this queue are being counted already; try again soon"));
    });
    return;
  }
  census_ = std::make_unique<RowCensus>(key_, strand_, env_.store, manager_, gate_);
  census_->Start([this, done = std::move(done)](Result<RowCounts> counts) mutable {
    // Not now: this closure runs inside the census.
    strand_.Post([this, self = shared_from_this()] {
      strand_.AssertCurrent();
      census_ = nullptr;
    });
    done(std::move(counts));
  });
}

}  // namespace millrace::queue
