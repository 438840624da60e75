#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/exec/event_loop.h"

namespace millrace::cli {

struct ChildSpec {
  std::string command;                   // For /bin/sh -c.
  std::vector<std::string> environment;  // "NAME=value", all of it.
  std::string input;                     // What the command reads on standard input.
  bool pass_stderr = true;               // Also to our own standard error.
};

struct ChildExit {
  bool signalled = false;
  int code = 0;             // Exit code, or the signal's number.
  std::string stderr_tail;  // The last bytes it wrote there.
};

// One command that runs, in a process group of its own, so that a Ctrl-C meant for us does not hit
// it.
//
// Thread: the loop's.
// Bounds: keeps kStderrTailBytes of what the command writes to standard error. The input is held in
// memory outside of this process's heap (a memfd) until the command ends. Fails: Start with
// kUnavailable when the system has no room for another process or descriptor. Invariants: `on_exit`
// runs once, after the process was reaped; destruction before that kills the group and reaps it.
class ChildProcess {
 public:
  static constexpr std::size_t kStderrTailBytes = 1'000;

  static Result<std::unique_ptr<ChildProcess>> Start(exec::EventLoop& loop, const ChildSpec& spec,
                                                     UniqueFunction<void(ChildExit)> on_exit);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // To the whole group.
  void Signal(int signal) const;

 private:
  ChildProcess(exec::EventLoop& loop, bool pass_stderr, UniqueFunction<void(ChildExit)> on_exit);
  void ReadStderr();
  void CloseStderr();
  void OnProcessEnded();
  void CloseProcess();

  exec::EventLoop& loop_;
  const bool pass_stderr_;
  UniqueFunction<void(ChildExit)> on_exit_;
  int pid_ = -1;
  int pid_fd_ = -1;
  int stderr_fd_ = -1;
  exec::EventLoop::WatchId pid_watch_ = 0;
  exec::EventLoop::WatchId stderr_watch_ = 0;
  std::string tail_;
};

}  // namespace millrace::cli
