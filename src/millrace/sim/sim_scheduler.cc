#include "millrace/sim/sim_scheduler.h"

#include <algorithm>

#include "millrace/base/check.h"
#include "millrace/sim/sim_executor.h"

namespace millrace::sim {

SimScheduler::SimScheduler(std::uint64_t seed, SimOptions options)
    : options_(options), random_(seed) {}

SimScheduler::~SimScheduler() { MR_CHECK(executors_.empty()); }

void SimScheduler::Register(SimExecutor& executor) {
  executor.id_ = ++last_executor_;
  executors_.push_back(&executor);
}

void SimScheduler::DropTimers(SimExecutor& executor) {
  for (auto it = timers_.begin(); it != timers_.end();) {
    if (it->second.owner == &executor) {
      timer_keys_.erase(it->first.second);
      // Out of the map first: what the closure's destructor does may touch timers.
      auto node = timers_.extract(it);
      node.mapped().closure = nullptr;
      it = timers_.begin();
    } else {
      ++it;
    }
  }
}

void SimScheduler::Unregister(SimExecutor& executor) {
  MakeIdle(executor);
  std::erase(executors_, &executor);
}

void SimScheduler::MakeRunnable(SimExecutor& executor) {
  if (executor.runnable_index_ != SimExecutor::kNotRunnable) return;
  executor.runnable_index_ = runnable_.size();
  runnable_.push_back(&executor);
}

void SimScheduler::MakeIdle(SimExecutor& executor) {
  const std::size_t index = executor.runnable_index_;
  if (index == SimExecutor::kNotRunnable) return;
  runnable_[index] = runnable_.back();
  runnable_[index]->runnable_index_ = index;
  runnable_.pop_back();
  executor.runnable_index_ = SimExecutor::kNotRunnable;
}

exec::TimerId SimScheduler::AddTimer(SimExecutor* owner, Instant when, Closure closure) {
  const exec::TimerId id = ++last_timer_;
  const TimerKey key{{when, random_.Next()}, id};
  timers_.emplace(key, Timer{owner, std::move(closure)});
  timer_keys_.emplace(id, key);
  return id;
}

bool SimScheduler::CancelTimer(exec::TimerId timer) {
  const auto it = timer_keys_.find(timer);
  if (it == timer_keys_.end()) return false;
  auto node = timers_.extract(it->second);
  timer_keys_.erase(it);
  return true;
}

void SimScheduler::FireDueTimers() {
  while (!timers_.empty() && timers_.begin()->first.first.first <= now_) {
    auto node = timers_.extract(timers_.begin());
    timer_keys_.erase(node.key().second);
    Timer timer = std::move(node.mapped());
    if (timer.owner != nullptr) {
      timer.owner->Post(std::move(timer.closure));
    } else {
      timer.closure();
    }
  }
}

bool SimScheduler::Step() {
  FireDueTimers();
  while (runnable_.empty()) {
    if (timers_.empty() || timers_.begin()->first.first.first == Instant::Max()) return false;
    now_ = std::max(now_, timers_.begin()->first.first.first);
    FireDueTimers();
  }
  SimExecutor& executor =
      runnable_.size() == 1 ? *runnable_.front() : *runnable_[random_.Below(runnable_.size())];
  ++steps_;
  trace_.Step(now_, executor.id_);
  executor.RunOne();
  if (options_.step_cost_max > Duration::zero()) {
    now_.ns += static_cast<std::int64_t>(
        random_.Below(static_cast<std::uint64_t>(options_.step_cost_max.count()) + 1));
  }
  return true;
}

std::uint64_t SimScheduler::RunReady() {
  const std::uint64_t before = steps_;
  FireDueTimers();
  while (!runnable_.empty()) Step();
  return steps_ - before;
}

void SimScheduler::RunUntil(Instant when) {
  for (;;) {
    FireDueTimers();
    if (now_ > when) return;
    if (runnable_.empty() && (timers_.empty() || timers_.begin()->first.first.first > when)) {
      now_ = when;
      return;
    }
    Step();
  }
}

bool SimScheduler::RunWhileNot(UniqueFunction<bool()> condition, Duration limit) {
  const Instant end = now_ + limit;
  while (!condition()) {
    FireDueTimers();
    if (runnable_.empty() && (timers_.empty() || timers_.begin()->first.first.first > end)) {
      now_ = timers_.empty() ? now_ : end;
      return false;
    }
    if (now_ > end) return false;
    Step();
  }
  return true;
}

bool SimScheduler::RunUntilQuiet(Duration limit) {
  const Instant end = now_ + limit;
  while (pending() > 0) {
    if (now_ > end) return false;
    if (!Step()) return true;
  }
  return true;
}

std::size_t SimScheduler::pending() const {
  std::size_t pending = timers_.size();
  for (const SimExecutor* executor : executors_) pending += executor->pending_closures();
  return pending;
}

}  // namespace millrace::sim
