// The end of a backlog: final metadata, final deletion, and waiting for what is in flight.

#include <utility>

#include "millrace/backlog/backlog_impl.h"
#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::backlog {

void BacklogManager::Impl::Stop(Closure done) {
  strand_.AssertCurrent();
  if (state_ == State::kDrained) return strand_.Post(std::move(done));
  stop_waiters_.push_back(std::move(done));
  if (state_ == State::kStopping) return;
  state_ = State::kStopping;
  update_timer_.Cancel();
  watched_ = nullptr;
  TellInitialized({StatusCode::kShuttingDown, "the queue is being unloaded"});
  for (const auto& subqueue : subqueues_) subqueue->Stop();
  rewriter_.Stop();
  expired_.Stop();
  finished_.Stop();
  lease_.Stop();
  EnterStopStep(StopStep::kWriterEnding);
  writer_.Stop({StatusCode::kShuttingDown, "the queue is being unloaded"},
               [this, hold = gate_.Enter()] {
                 strand_.AssertCurrent();
                 OnWriterEnded();
               });
}

void BacklogManager::Impl::EnterStopStep(StopStep step) {
  stop_step_ = step;
  stop_timer_.Arm(strand_.clock().Now() + config_.final_io_timeout, [this] {
    strand_.AssertCurrent();
    if (stop_step_ == StopStep::kFinalDelete) {
      WaitForCalls();
    } else {
      StartFinalDelete();
    }
  });
}

void BacklogManager::Impl::OnWriterEnded() {
  if (stop_step_ != StopStep::kWriterEnding) return;
  if (!levels_known_ || no_final_update_) return WaitForCalls();
  if (writer_.undecided() || MR_MUTANT(final_update_skipped)) return StartFinalDelete();
  EnterStopStep(StopStep::kFinalWrite);
  writer_.WriteFinal([this](const Status&) {
    strand_.AssertCurrent();
    // Whatever came of it: the tasks behind the ack level are finished.
    if (stop_step_ == StopStep::kFinalWrite) StartFinalDelete();
  });
}

void BacklogManager::Impl::StartFinalDelete() {
  if (!levels_known_ || no_final_update_ || config_.delete_on_finish || subqueues_.empty())
    return WaitForCalls();
  EnterStopStep(StopStep::kFinalDelete);
  deletions_left_ = subqueues_.size();
  for (const auto& subqueue : subqueues_) {
    subqueue->CollectAtStop(stop_timer_.when(), [this, hold = gate_.Enter()] {
      strand_.AssertCurrent();
      if (--deletions_left_ == 0 && stop_step_ == StopStep::kFinalDelete) WaitForCalls();
    });
  }
}

void BacklogManager::Impl::WaitForCalls() {
  stop_step_ = StopStep::kWaiting;
  stop_timer_.Cancel();
  gate_.Close([this] {
    // Everything of this object has ended, so that it lives until the closure below tells its
    // owner.
    strand_.Post([this] {
      strand_.AssertCurrent();
      state_ = State::kDrained;
      std::vector<Closure> waiters;
      waiters.swap(stop_waiters_);
      // The first may destroy this object.
      for (Closure& waiter : waiters) waiter();
    });
  });
}

}  // namespace millrace::backlog
