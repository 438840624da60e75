#pragma once

#include <cstdint>

#include "millrace/base/mutex.h"
#include "millrace/base/status.h"

namespace millrace::server {

// Whether this server wants traffic now: it must have started, not be stopping, and its store must
// take writes. Thread: any.
class Readiness {
 public:
  enum class Phase : std::uint8_t { kStarting, kServing, kDraining };

  void SetPhase(Phase phase);
  void SetStoreHealth(Status health);

  // Ok, or kUnavailable with the reason in words.
  [[nodiscard]] Status Get() const;

 private:
  mutable Mutex mutex_;
  Phase phase_ MR_GUARDED_BY(mutex_) = Phase::kStarting;
  Status store_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::server
