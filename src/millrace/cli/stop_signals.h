#pragma once

#include "millrace/base/function.h"
#include "millrace/exec/event_loop.h"

namespace millrace::cli {

// SIGINT and SIGTERM as events of a loop. Make it before any other thread starts, since threads
// take the signal mask from the one that made them. Signals between construction and Attach wait.
//
// Thread: construction, Attach and destruction on one thread, not the loop's. Destroy it before the
// loop.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // `on_signal` runs on the loop for each one.
  void Attach(exec::EventLoop& loop, Closure on_signal);
  // Afterwards on_signal never runs again.
  void Detach();

 private:
  int fd_ = -1;
  exec::EventLoop* loop_ = nullptr;
  exec::EventLoop::WatchId watch_ = 0;
};

}  // namespace millrace::cli
