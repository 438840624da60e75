#include "millrace/store/commit_thread.h"

#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::store {
namespace {

std::size_t WriteBytes(const QueueWrite& write) {
  // Keys and headers of a row are about this large.
  constexpr std::size_t kRowBytes = 64;
  std::size_t bytes = write.queue.namespace_id.size() + write.queue.persistence_name.size();
  for (const TaskRow& row : write.creates) bytes += kRowBytes + row.payload.size();
  bytes += kRowBytes * write.deletes.size();
  for (const SideRow& row : write.side_puts) bytes += kRowBytes + row.value.size();
  bytes += kRowBytes * write.side_deletes.size();
  if (write.metadata) {
    bytes +=
        kRowBytes * (1 + write.metadata->subqueues.size()) + write.metadata->owner_state.size();
  }
  return bytes;
}

}  // namespace

CommitThread::CommitThread(TaskStore& store, const ThreadedTaskStoreConfig& config,
                           Metrics& metrics)
    : store_(store),
      config_(config),
      group_writes_(metrics.GetHistogram(
          "millrace_store_commit_group_writes", "Queue writes committed together.",
          {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096})),
      commit_seconds_(metrics.GetHistogram("millrace_store_commit_seconds",
                                           "Time to make one group of writes durable.",
                                           {0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                            0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10})),
      thread_([this] { Loop(); }) {}

CommitThread::~CommitThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

void CommitThread::Commit(QueueWrite write, exec::Strand& strand, CommitCallback done) {
  auto item = std::make_unique<Item>();
  const bool urgent = write.durability == Durability::kSynced;
  item->write = std::move(write);
  item->strand = &strand;
  item->done = std::move(done);
  Push(std::move(item), urgent);
}

void CommitThread::Run(Closure chore) {
  auto item = std::make_unique<Item>();
  item->chore = std::move(chore);
  Push(std::move(item), /*urgent=*/true);
}

void CommitThread::Push(std::unique_ptr<Item> item, bool urgent) {
  bool notify = false;
  {
    MutexLock lock(mutex_);
    MR_CHECK(!stopping_);
    // A thread that sleeps on nothing must hear of the first relaxed write as well, to time it.
    notify = asleep_ && (waiting_.empty() || (urgent && !urgent_));
    waiting_.push_back(std::move(item));
    urgent_ = urgent_ || urgent;
  }
  if (notify) wake_.NotifyOne();
}

bool CommitThread::Take(Items& items) {
  MutexLock lock(mutex_);
  while (!stopping_ && waiting_.empty()) {
    asleep_ = true;
    wake_.Wait(mutex_);
    asleep_ = false;
  }
  if (!urgent_ && !stopping_) {
    const auto give_up = std::chrono::steady_clock::now() + config_.relaxed_write_delay;
    while (!urgent_ && !stopping_) {
      const auto left = give_up - std::chrono::steady_clock::now();
      if (left <= Duration::zero()) break;
      asleep_ = true;
      wake_.WaitFor(mutex_, left);
      asleep_ = false;
    }
  }
  items.swap(waiting_);
  urgent_ = false;
  return !items.empty();
}

void CommitThread::Loop() {
  Items items;
  while (Take(items)) {
    std::size_t next = 0;
    while (next < items.size()) {
      if (items[next]->strand == nullptr) {
        items[next]->chore();
        items[next++] = nullptr;
      } else {
        next = CommitGroup(items, next);
      }
    }
    items.clear();
  }
}

std::size_t CommitThread::CommitGroup(Items& items, std::size_t begin) {
  std::size_t end = begin;
  std::size_t bytes = 0;
  while (end < items.size() && items[end]->strand != nullptr &&
         end - begin < config_.group_writes_max) {
    bytes += WriteBytes(items[end]->write);
    if (end > begin && bytes > config_.group_bytes_max) break;
    group_.push_back(std::move(items[end]->write));
    ++end;
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<Status> results;
  std::vector<QueueWrite> late;
  if (MR_MUTANT(reply_before_commit)) {
    late = group_;
    results.resize(group_.size());
  } else {
    results = store_.Commit(group_);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  MR_CHECK(results.size() == group_.size());
  group_writes_.Observe(static_cast<double>(group_.size()));
  commit_seconds_.Observe(taken.count());
  for (std::size_t i = begin; i < end; ++i) {
    std::unique_ptr<Item> item = std::move(items[i]);
    item->write = std::move(group_[i - begin]);
    item->status = std::move(results[i - begin]);
    exec::Strand& strand = *item->strand;
    strand.Post(
        [item = std::move(item)] { item->done(std::move(item->status), std::move(item->write)); });
  }
  group_.clear();
  if (!late.empty()) (void)store_.Commit(late);
  return end;
}

}  // namespace millrace::store
