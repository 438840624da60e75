#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/base/mutex.h"
#include "millrace/base/time.h"

namespace millrace::temporal {

// Workers that said lately that they shut down: their polls stay empty, so that no task goes to
// one that is leaving.
//
// Thread: any. Bounds: `max` workers; the oldest gives way.
class WorkerShutdowns {
 public:
  WorkerShutdowns(Duration keep, std::size_t max) : keep_(keep), max_(max) {}

  void Add(const std::string& worker, Instant now) {
    MutexLock lock(mutex_);
    Expire(now);
    if (!known_.insert(worker).second) return;
    if (known_.size() > max_) {
      known_.erase(by_time_.front().second);
      by_time_.pop_front();
    }
    by_time_.emplace_back(now, worker);
  }

  [[nodiscard]] bool Contains(const std::string& worker, Instant now) {
    if (worker.empty()) return false;
    MutexLock lock(mutex_);
    if (known_.empty()) return false;
    Expire(now);
    return known_.contains(worker);
  }

 private:
  void Expire(Instant now) MR_REQUIRES(mutex_) {
    while (!by_time_.empty() && by_time_.front().first + keep_ <= now) {
      known_.erase(by_time_.front().second);
      by_time_.pop_front();
    }
  }

  const Duration keep_;
  const std::size_t max_;
  Mutex mutex_;
  std::set<std::string, std::less<>> known_ MR_GUARDED_BY(mutex_);
  std::deque<std::pair<Instant, std::string>> by_time_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::temporal
