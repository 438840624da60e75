#pragma once

#include <deque>
#include <map>
#include <utility>

#include "millrace/exec/executor.h"

namespace millrace::exec {

// A clock that a test sets. Thread: one at a time.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant now = Instant{1'000'000'000},
                       WallTime wall = WallTime{1'700'000'000'000'000'000})
      : now_(now), wall_(wall) {}

  [[nodiscard]] Instant Now() const override { return now_; }
  [[nodiscard]] WallTime WallNow() const override { return wall_; }
  // Moves both kinds of time forward.
  void Advance(Duration d) {
    now_ = now_ + d;
    wall_ = wall_ + d;
  }
  // Moves calendar time only, as an operator or NTP would.
  void JumpWall(Duration d) { wall_ = wall_ + d; }

 private:
  Instant now_;
  WallTime wall_;
};

// An executor for tests: nothing runs until the test says so, and time moves only when the test
// moves it. Thread: one at a time.
class ManualExecutor final : public Executor {
 public:
  ManualExecutor() = default;

  void Post(Closure closure) override { ready_.push_back(std::move(closure)); }
  TimerId PostAt(Instant when, Closure closure) override {
    const TimerId id = ++last_id_;
    timers_.emplace(std::pair(when, id), std::move(closure));
    when_.emplace(id, when);
    return id;
  }
  bool CancelTimer(TimerId timer) override {
    const auto it = when_.find(timer);
    if (it == when_.end()) return false;
    timers_.erase(std::pair(it->second, timer));
    when_.erase(it);
    return true;
  }
  [[nodiscard]] const Clock& clock() const override { return clock_; }
  [[nodiscard]] ManualClock& manual_clock() { return clock_; }

  // Runs everything that is due now, including what that posts. Returns how many closures ran.
  int RunUntilIdle() {
    CurrentScope scope(this);
    int ran = 0;
    for (;;) {
      while (!timers_.empty() && timers_.begin()->first.first <= clock_.Now()) {
        auto node = timers_.extract(timers_.begin());
        when_.erase(node.key().second);
        ready_.push_back(std::move(node.mapped()));
      }
      if (ready_.empty()) return ran;
      Closure closure = std::move(ready_.front());
      ready_.pop_front();
      closure();
      ++ran;
    }
  }

  // Moves time to `d` from now in steps, running each timer at its own time.
  void AdvanceBy(Duration d) {
    const Instant end = clock_.Now() + d;
    RunUntilIdle();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      clock_.Advance(timers_.begin()->first.first - clock_.Now());
      RunUntilIdle();
    }
    clock_.Advance(end - clock_.Now());
    RunUntilIdle();
  }

  [[nodiscard]] std::size_t pending_timers() const { return timers_.size(); }
  [[nodiscard]] std::size_t pending_closures() const { return ready_.size(); }

 private:
  ManualClock clock_;
  std::deque<Closure> ready_;
  std::map<std::pair<Instant, TimerId>, Closure> timers_;
  std::map<TimerId, Instant> when_;
  TimerId last_id_ = 0;
};

}  // namespace millrace::exec
