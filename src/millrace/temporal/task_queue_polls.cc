// TaskQueueRuntime: polls that wait.
#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/task_queue_runtime.h"

namespace millrace::temporal {

TaskQueueRuntime::PollId TaskQueueRuntime::Poll(PollParams params, PollCallback done) {
  strand_.AssertCurrent();
  const Instant now = strand_.clock().Now();
  pollers_seen_.Saw(params.identity, std::move(params.about), now, strand_.clock().WallNow());
  polled_ = true;
  last_poll_at_ = now;
  const PollId id = ++last_poll_;
  if (params.no_wait) params.deadline = now;
  if (!params.poller_id.empty()) by_poller_id_[params.poller_id] = id;
  if (!params.worker_key.empty()) by_worker_.emplace(params.worker_key, id);
  OpenPoll& poll = polls_[id];
  poll.params = std::move(params);
  poll.done = std::move(done);
  Wait(id);
  return id;
}

void TaskQueueRuntime::Wait(PollId id) {
  strand_.AssertCurrent();
  OpenPoll& poll = polls_.at(id);
  matching::PollRequest request;
  request.deadline = poll.params.deadline;
  request.done = [this, id](matching::PollResult result) { OnPolled(id, std::move(result)); };
  // 0 when it was refused: the answer is on its way.
  poll.waiting = matcher_.AddPoller(std::move(request));
}

void TaskQueueRuntime::OnPolled(PollId id, matching::PollResult result) {
  strand_.AssertCurrent();
  const auto it = polls_.find(id);
  MR_CHECK(it != polls_.end());
  it->second.waiting = 0;
  if (!result.tasks.empty()) {
    // The matcher answers within its call for a task, or within TryMatch.
    Match match;
    match.partition = taken_from_;
    match.offer = std::exchange(offering_, 0);
    match.task = std::move(result.tasks.front());
    return StartTask(id, std::move(match));
  }
  if (result.status.code() == StatusCode::kShuttingDown) {
    return Answer(it, {polls_end_with_, {}});
  }
  if (result.status.ok() || result.status.code() == StatusCode::kCancelled) {
    return Answer(it, {});
  }
  Answer(it, {EngineError(result.status), {}});
}

void TaskQueueRuntime::Answer(Polls::iterator it, PollOutcome outcome) {
  strand_.AssertCurrent();
  MR_CHECK(it != polls_.end());
  OpenPoll poll = std::move(it->second);
  const PollId id = it->first;
  polls_.erase(it);
  if (poll.resting) resting_.erase({poll.rest_until, id});
  const auto named = by_poller_id_.find(poll.params.poller_id);
  if (named != by_poller_id_.end() && named->second == id) by_poller_id_.erase(named);
  if (!poll.params.worker_key.empty()) by_worker_.erase({poll.params.worker_key, id});
  last_poll_at_ = strand_.clock().Now();
  Touch();
  MatchingMetrics& metrics = env_.metrics;
  if (!outcome.status.ok()) {
    metrics.polls_failed.Increment();
  } else if (outcome.response.empty()) {
    metrics.polls_empty.Increment();
  } else {
    metrics.polls_answered.Increment();
    dispatch_rate_.Count(last_poll_at_);
  }
  poll.done(std::move(outcome));
}

bool TaskQueueRuntime::CancelPoll(PollId poll) {
  strand_.AssertCurrent();
  const auto it = polls_.find(poll);
  if (it == polls_.end()) return false;
  if (it->second.resting) {
    Answer(it, {});
    return true;
  }
  if (it->second.waiting == 0) {
    // Its task is being started. Should that fail, it waits for no other.
    it->second.ending = true;
    return false;
  }
  matcher_.CancelPoller(it->second.waiting);
  return true;
}

bool TaskQueueRuntime::CancelPoller(const std::string& poller_id) {
  strand_.AssertCurrent();
  const auto it = by_poller_id_.find(poller_id);
  return it != by_poller_id_.end() && CancelPoll(it->second);
}

int TaskQueueRuntime::CancelWorker(const std::string& worker_key) {
  strand_.AssertCurrent();
  std::vector<PollId> polls;
  for (auto it = by_worker_.lower_bound({worker_key, 0});
       it != by_worker_.end() && it->first == worker_key; ++it) {
    polls.push_back(it->second);
  }
  int cancelled = 0;
  for (const PollId poll : polls) cancelled += CancelPoll(poll) ? 1 : 0;
  // The one worker of a sticky queue has gone: it takes no tasks until somebody polls again.
  if (sticky_ && !polls.empty()) polled_ = false;
  return cancelled;
}

bool TaskQueueRuntime::PolledWithin(Duration window) const {
  strand_.AssertCurrent();
  if (!polls_.empty()) return true;
  return polled_ && last_poll_at_ + window > strand_.clock().Now();
}

void TaskQueueRuntime::Rest(PollId id) {
  strand_.AssertCurrent();
  OpenPoll& poll = polls_.at(id);
  if (state_ != State::kOpen) return Wait(id);  // Which ends it.
  poll.rest = std::clamp(poll.rest * 2, config_.start_retry_min, config_.start_retry_max);
  poll.rest_until = std::min(strand_.clock().Now() + poll.rest, poll.params.deadline);
  poll.resting = true;
  resting_.emplace(poll.rest_until, id);
  if (!rest_timer_.armed() || poll.rest_until < rest_timer_.when()) {
    rest_timer_.Arm(poll.rest_until, [this] { OnRestTimer(); });
  }
}

void TaskQueueRuntime::OnRestTimer() {
  strand_.AssertCurrent();
  const Instant now = strand_.clock().Now();
  while (!resting_.empty() && resting_.begin()->first <= now) {
    const PollId id = resting_.begin()->second;
    resting_.erase(resting_.begin());
    polls_.at(id).resting = false;
    Wait(id);
  }
  if (!resting_.empty()) {
    rest_timer_.Arm(resting_.begin()->first, [this] { OnRestTimer(); });
  }
}

}  // namespace millrace::temporal
