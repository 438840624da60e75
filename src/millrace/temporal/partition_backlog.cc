#include "millrace/temporal/partition_backlog.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::temporal {

PartitionBacklog::PartitionBacklog(std::int32_t number, store::PhysicalQueueKey key,
                                   const BacklogEnvironment& environment, exec::Strand& strand,
                                   exec::Gate& gate, BacklogOwner& owner)
    : number_(number),
      key_(std::move(key)),
      env_(environment),
      strand_(strand),
      gate_(gate),
      owner_(owner),
      retry_(strand),
      retry_wait_(env_.config.backlog.store_retry_min) {}

PartitionBacklog::~PartitionBacklog() = default;

void PartitionBacklog::Find() {
  strand_.AssertCurrent();
  Look();
}

void PartitionBacklog::Look() {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return;
  env_.store.ReadMetadata(
      key_, strand_, [this, hold = std::move(hold)](const Result<store::QueueMetadata>& metadata) {
        strand_.AssertCurrent();
        if (state_ != State::kUnknown && state_ != State::kAbsent) return;
        if (metadata.ok()) return Load();
        if (metadata.code() == StatusCode::kNotFound) return OnAbsent();
        if (metadata.code() == StatusCode::kInvalidArgument ||
            metadata.code() == StatusCode::kCorruption) {
          return owner_.OnUnloadRequested(backlog::UnloadCause::kInitError, metadata.status());
        }
        retry_.Arm(strand_.clock().Now() + retry_wait_, [this] { Look(); });
        retry_wait_ = std::min(retry_wait_ * 2, env_.config.backlog.store_retry_max);
      });
}

void PartitionBacklog::OnAbsent() {
  strand_.AssertCurrent();
  // Another host may store something there, and go.
  if (!env_.store.traits().exclusive && !MR_MUTANT(absent_partition_forgotten)) {
    retry_.Arm(strand_.clock().Now() + env_.config.backlog.update_interval, [this] { Look(); });
  }
  if (state_ == State::kAbsent) return;
  state_ = State::kAbsent;
  owner_.OnPartitionKnown(number_);
}

void PartitionBacklog::Load() {
  strand_.AssertCurrent();
  if (state_ != State::kUnknown && state_ != State::kAbsent) return;
  state_ = State::kLoading;
  retry_.Cancel();
  manager_ = std::make_unique<backlog::BacklogManager>(
      key_, env_.config.backlog, strand_, env_.store, env_.owner_watch, env_.random, env_.metrics,
      env_.log, static_cast<backlog::BacklogListener&>(*this));
  manager_->Start();
}

void PartitionBacklog::OnLeaseHeld() {
  strand_.AssertCurrent();
  if (state_ != State::kLoading) return;
  state_ = State::kHeld;
  manager_->BeginReading();
  owner_.OnPartitionKnown(number_);
}

void PartitionBacklog::OnUnloadRequested(backlog::UnloadCause cause, const Status& status) {
  owner_.OnUnloadRequested(cause, status);
}

void PartitionBacklog::Stop(Closure done) {
  strand_.AssertCurrent();
  MR_CHECK(state_ != State::kStopping);
  state_ = State::kStopping;
  retry_.Cancel();
  if (manager_ == nullptr) return strand_.Post(std::move(done));
  manager_->Stop(std::move(done));
}

}  // namespace millrace::temporal
