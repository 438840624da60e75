#include "millrace/sim/sim_executor.h"

#include <utility>

namespace millrace::sim {

SimExecutor::SimExecutor(SimScheduler& scheduler, const SimClock& clock, SimExecutorOptions options)
    : scheduler_(scheduler), clock_(clock), options_(options) {
  scheduler_.Register(*this);
}

SimExecutor::~SimExecutor() {
  scheduler_.CancelTimer(resume_timer_);
  // Destroying a closure may post another one or arm a timer here.
  stalled_ = true;
  do {
    while (!ready_.empty()) {
      Closure dropped = std::move(ready_.front());
      ready_.pop_front();
    }
    scheduler_.DropTimers(*this);
  } while (!ready_.empty());
  scheduler_.Unregister(*this);
}

void SimExecutor::Post(Closure closure) {
  ready_.push_back(std::move(closure));
  if (!stalled_) scheduler_.MakeRunnable(*this);
}

exec::TimerId SimExecutor::PostAt(Instant when, Closure closure) {
  Instant at = when == Instant::Max() ? when : clock_.ToSimulation(when);
  if (options_.timer_delay_max > Duration::zero()) {
    const auto bound = static_cast<std::uint64_t>(options_.timer_delay_max.count()) + 1;
    at = at + Duration(static_cast<std::int64_t>(scheduler_.random().Below(bound)));
  }
  return scheduler_.AddTimer(this, at, std::move(closure));
}

bool SimExecutor::CancelTimer(exec::TimerId timer) { return scheduler_.CancelTimer(timer); }

void SimExecutor::StallUntil(Instant when) {
  scheduler_.CancelTimer(resume_timer_);
  stalled_ = true;
  scheduler_.MakeIdle(*this);
  resume_timer_ = scheduler_.AddTimer(nullptr, when, [this] { Resume(); });
}

void SimExecutor::Resume() {
  stalled_ = false;
  resume_timer_ = 0;
  if (!ready_.empty()) scheduler_.MakeRunnable(*this);
}

void SimExecutor::RunOne() {
  CurrentScope scope(this);
  Closure closure = std::move(ready_.front());
  ready_.pop_front();
  // Idle before it runs: the closure may stall this executor or post to it.
  if (ready_.empty()) scheduler_.MakeIdle(*this);
  closure();
}

}  // namespace millrace::sim
