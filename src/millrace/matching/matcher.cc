#include "millrace/matching/matcher.h"

#include <string>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::matching {

Matcher::Matcher(exec::Strand& strand, TaskSource& source, std::size_t pollers_max)
    : strand_(strand), source_(source), pollers_max_(pollers_max), timer_(strand) {}

Matcher::~Matcher() { MR_CHECK(!closed_.ok()); }

Matcher::PollerId Matcher::AddPoller(PollRequest request) {
  strand_.AssertCurrent();
  MR_CHECK(request.max_tasks > 0);
  Status refused = closed_;
  if (refused.ok() && pollers_.size() >= pollers_max_) {
    refused =
        Status(StatusCode::kResourceExhausted,
               "too many waiting lease calls on this queue (" + std::to_string(pollers_max_) + ")");
  }
  if (!refused.ok()) {
    strand_.Post([done = std::move(request.done), refused]() mutable { done({refused, {}}); });
    return 0;
  }
  const PollerId id = ++last_id_;
  deadlines_.emplace(request.deadline, id);
  const bool has_loaded = source_.HasLoaded();
  pollers_.emplace(id, Poller{.max_tasks = request.max_tasks,
                              .deadline = request.deadline,
                              .done = std::move(request.done),
                              .waited = !has_loaded});
  if (has_loaded || request.deadline <= strand_.clock().Now()) {
    PumpSoon();
  } else {
    ArmTimer();
  }
  return id;
}

void Matcher::CancelPoller(PollerId poller) {
  strand_.AssertCurrent();
  const auto it = pollers_.find(poller);
  if (it == pollers_.end() || MR_MUTANT(cancelled_poller_takes_task)) return;
  Answer(it, {Status(StatusCode::kCancelled, "the caller went away"), {}});
  ArmTimer();
}

void Matcher::PumpSoon() {
  strand_.AssertCurrent();
  if (pump_posted_) return;
  pump_posted_ = true;
  strand_.Post([this] {
    strand_.AssertCurrent();
    pump_posted_ = false;
    if (closed_.ok()) Pump();
  });
}

void Matcher::Pump() {
  strand_.AssertCurrent();
  while (!pollers_.empty() && source_.HasLoaded()) {
    const auto it = pollers_.begin();
    std::vector<backlog::LoadedTask> tasks = source_.TakeLoaded(it->second.max_tasks);
    if (tasks.empty()) break;  // All of them had expired.
    (it->second.waited ? sync_matches_ : backlog_matches_) +=
        static_cast<std::int64_t>(tasks.size());
    Answer(it, {OkStatus(), std::move(tasks)});
  }
  EndExpired();
}

bool Matcher::TryMatch(backlog::LoadedTask& task) {
  strand_.AssertCurrent();
  if (pollers_.empty()) return false;
  PollResult result;
  result.tasks.push_back(std::move(task));
  ++sync_matches_;
  Answer(pollers_.begin(), std::move(result));
  ArmTimer();
  return true;
}

void Matcher::Answer(Pollers::iterator it, PollResult result) {
  strand_.AssertCurrent();
  deadlines_.erase({it->second.deadline, it->first});
  UniqueFunction<void(PollResult)> done = std::move(it->second.done);
  pollers_.erase(it);
  if (MR_MUTANT(poller_lost_at_match) && !result.tasks.empty()) return;
  if (MR_MUTANT(poller_answered_twice)) done({});
  done(std::move(result));
}

void Matcher::EndExpired() {
  strand_.AssertCurrent();
  const Instant now = strand_.clock().Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Answer(pollers_.find(deadlines_.begin()->second), {});
  }
  ArmTimer();
}

void Matcher::ArmTimer() {
  strand_.AssertCurrent();
  if (deadlines_.empty()) {
    timer_.Cancel();
    return;
  }
  const Instant first = deadlines_.begin()->first;
  // A timer that is early by now only looks again; moving it for every poller would cost more than
  // that.
  if (timer_.armed() && timer_.when() <= first) return;
  timer_.Arm(first, [this] {
    strand_.AssertCurrent();
    EndExpired();
  });
}

void Matcher::Close(const Status& status) {
  strand_.AssertCurrent();
  MR_CHECK(!status.ok());
  if (!closed_.ok()) return;
  closed_ = status;
  while (!pollers_.empty()) Answer(pollers_.begin(), {status, {}});
  timer_.Cancel();
}

}  // namespace millrace::matching
