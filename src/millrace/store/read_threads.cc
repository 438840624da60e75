#include "millrace/store/read_threads.h"

#include <utility>

#include "millrace/base/check.h"

namespace millrace::store {

ReadThreads::ReadThreads(int threads) {
  MR_CHECK(threads > 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

ReadThreads::~ReadThreads() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void ReadThreads::Run(Closure read) {
  {
    MutexLock lock(mutex_);
    MR_CHECK(!stopping_);
    waiting_.push_back(std::move(read));
  }
  wake_.NotifyOne();
}

void ReadThreads::Loop() {
  for (;;) {
    Closure read;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) wake_.Wait(mutex_);
      if (waiting_.empty()) return;
      read = std::move(waiting_.front());
      waiting_.pop_front();
    }
    read();
  }
}

}  // namespace millrace::store
