#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/mutex.h"

namespace millrace::store {

// A few threads that run blocking reads, oldest first, for ThreadedTaskStore.
//
// Thread: any.
// Bounds: threads as given; reads in flight are bounded by those who ask.
// Invariants: the destructor runs everything handed over first.
class ReadThreads {
 public:
  explicit ReadThreads(int threads);
  ~ReadThreads();
  ReadThreads(const ReadThreads&) = delete;
  ReadThreads& operator=(const ReadThreads&) = delete;

  void Run(Closure read);

 private:
  void Loop();

  Mutex mutex_;
  CondVar wake_;
  std::deque<Closure> waiting_ MR_GUARDED_BY(mutex_);
  bool stopping_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::store
