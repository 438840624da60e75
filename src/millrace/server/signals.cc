#include "millrace/server/signals.h"

#include <pthread.h>
#include <unistd.h>

#include "millrace/base/check.h"

namespace millrace::server {
namespace {

void ExitNow(int signal) { _exit(128 + signal); }

void GiveUp(int) {
  constexpr char kWords[] = "millrace: not stopped in time, giving up; acknowledged work is safe\n";
  const ssize_t written = ::write(STDERR_FILENO, kWords, sizeof(kWords) - 1);
  static_cast<void>(written);
  _exit(1);
}

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
  MR_CHECK(pthread_sigmask(SIG_BLOCK, &set_, &old_mask_) == 0);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe_);
}

Signals::~Signals() {
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

int Signals::Wait() {
  int signal = 0;
  int error = 0;
  do {
    error = sigwait(&set_, &signal);
  } while (error != 0);
  return signal;
}

void Signals::ExitAtNext(Duration limit) {
  struct sigaction exit_now{};
  exit_now.sa_handler = ExitNow;
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT}) {
    sigaction(signal, &exit_now, nullptr);
    sigaddset(&ends, signal);
  }
  struct sigaction give_up{};
  give_up.sa_handler = GiveUp;
  sigaction(SIGALRM, &give_up, nullptr);
  alarm(static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(limit).count()));
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
}

}  // namespace millrace::server
