#include "millrace/server/readiness.h"

#include <string>
#include <utility>

namespace millrace::server {

void Readiness::SetPhase(Phase phase) {
  MutexLock lock(mutex_);
  phase_ = phase;
}

void Readiness::SetStoreHealth(Status health) {
  MutexLock lock(mutex_);
  store_ = std::move(health);
}

Status Readiness::Get() const {
  MutexLock lock(mutex_);
  if (phase_ == Phase::kStarting) return Status(StatusCode::kUnavailable, "starting");
  if (phase_ == Phase::kDraining) return Status(StatusCode::kUnavailable, "draining");
  if (!store_.ok()) {
    return Status(StatusCode::kUnavailable, "store refuses writes: " + store_.ToString());
  }
  return OkStatus();
}

}  // namespace millrace::server
