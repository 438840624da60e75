#include "millrace/cli/stop_signals.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <future>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::cli {

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  MR_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  MR_CHECK(fd_ >= 0);
}

StopSignals::~StopSignals() {
  Detach();
  close(fd_);
}

void StopSignals::Attach(exec::EventLoop& loop, Closure on_signal) {
  MR_CHECK(loop_ == nullptr);
  loop_ = &loop;
  std::promise<void> done;
  loop.Post([this, &done, on_signal = std::move(on_signal)]() mutable {
    watch_ =
        loop_->Watch(fd_, EPOLLIN, [this, on_signal = std::move(on_signal)](std::uint32_t) mutable {
          signalfd_siginfo info;
          while (read(fd_, &info, sizeof(info)) == sizeof(info)) on_signal();
        });
    done.set_value();
  });
  done.get_future().wait();
}

void StopSignals::Detach() {
  if (loop_ == nullptr) return;
  std::promise<void> done;
  loop_->Post([this, &done] {
    loop_->Unwatch(watch_);
    done.set_value();
  });
  done.get_future().wait();
  loop_ = nullptr;
}

}  // namespace millrace::cli
