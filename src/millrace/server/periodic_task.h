#pragma once

#include <functional>
#include <memory>

#include "millrace/base/time.h"
#include "millrace/exec/executor.h"

namespace millrace::server {

// Runs a function again and again on an executor, `interval` after it last ended.
//
// Thread: construction and destruction from any thread but the executor's.
// Invariants: after destruction it neither runs nor is running.
class PeriodicTask {
 public:
  PeriodicTask(exec::Executor& executor, Duration interval, std::function<void()> run);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  struct State;
  static void Arm(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace millrace::server
