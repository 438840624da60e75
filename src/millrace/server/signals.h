#pragma once

#include <csignal>

#include "millrace/base/time.h"

namespace millrace::server {

// Signals of a server as events: SIGTERM, SIGINT and SIGHUP are blocked and read one at a time.
// Make it before the first thread, so that every thread has them blocked. SIGPIPE is ignored.
//
// Thread: the one that made it.
// Invariants: one at a time in a process. Destruction restores what was before.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Blocks until one of them comes, and returns it.
  int Wait();

  // From now on SIGTERM and SIGINT end the process at once with exit code 128 + signal, and so does
  // the end of `limit`, with code 1. (The default action would do for the signals, except in
  // process 1 of a container, which the kernel shields from it.)
  void ExitAtNext(Duration limit);

 private:
  sigset_t set_;
  sigset_t old_mask_;
  struct sigaction old_pipe_;
};

}  // namespace millrace::server
