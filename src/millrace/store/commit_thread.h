#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/task_store.h"
#include "millrace/store/threaded_task_store.h"

namespace millrace::store {

// The one thread that writes, for ThreadedTaskStore.
//
// Thread: Commit and Run from any.
// Bounds: a commit group, by the config.
// Invariants: what is handed over is done in that order; the destructor does all of it first.
class CommitThread {
 public:
  CommitThread(TaskStore& store, const ThreadedTaskStoreConfig& config, Metrics& metrics);
  ~CommitThread();
  CommitThread(const CommitThread&) = delete;
  CommitThread& operator=(const CommitThread&) = delete;

  void Commit(QueueWrite write, exec::Strand& strand, CommitCallback done);
  // Runs `chore`, which may block, after every write handed over before it.
  void Run(Closure chore);

 private:
  // A write and, later, its answer: allocated once, then handed from caller to thread to strand.
  struct Item {
    QueueWrite write;
    Status status;
    exec::Strand* strand = nullptr;  // Null: a chore.
    CommitCallback done;
    Closure chore;
  };
  using Items = std::vector<std::unique_ptr<Item>>;

  void Push(std::unique_ptr<Item> item, bool urgent);
  void Loop();
  // Waits until there is something to do now; false = stopped and nothing left.
  bool Take(Items& items);
  // Does items[begin..] up to the first chore or the bounds; returns where it stopped.
  std::size_t CommitGroup(Items& items, std::size_t begin);

  TaskStore& store_;
  const ThreadedTaskStoreConfig config_;
  Histogram& group_writes_;
  Histogram& commit_seconds_;

  Mutex mutex_;
  CondVar wake_;
  Items waiting_ MR_GUARDED_BY(mutex_);
  bool urgent_ MR_GUARDED_BY(mutex_) = false;  // Something in waiting_ may not wait.
  bool asleep_ MR_GUARDED_BY(mutex_) = false;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;

  // The thread's own.
  std::vector<QueueWrite> group_;

  std::thread thread_;
};

}  // namespace millrace::store
