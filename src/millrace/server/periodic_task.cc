#include "millrace/server/periodic_task.h"

#include <utility>

#include "millrace/base/mutex.h"

namespace millrace::server {

struct PeriodicTask::State {
  State(exec::Executor& e, Duration i, std::function<void()> r)
      : executor(e), interval(i), run(std::move(r)) {}

  exec::Executor& executor;
  const Duration interval;
  const std::function<void()> run;
  // Held while `run` runs: the destructor waits for it.
  Mutex mutex;
  bool stopped MR_GUARDED_BY(mutex) = false;
  exec::TimerId timer MR_GUARDED_BY(mutex) = 0;
};

PeriodicTask::PeriodicTask(exec::Executor& executor, Duration interval, std::function<void()> run)
    : state_(std::make_shared<State>(executor, interval, std::move(run))) {
  Arm(state_);
}

PeriodicTask::~PeriodicTask() {
  MutexLock lock(state_->mutex);
  state_->stopped = true;
  state_->executor.CancelTimer(state_->timer);
}

void PeriodicTask::Arm(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mutex);
  if (state->stopped) return;
  const Instant when = state->executor.clock().Now() + state->interval;
  state->timer = state->executor.PostAt(when, [state] {
    {
      MutexLock running(state->mutex);
      if (state->stopped) return;
      state->run();
    }
    Arm(state);
  });
}

}  // namespace millrace::server
