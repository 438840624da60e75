#include "millrace/store/threaded_task_store.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/exec/strand.h"
#include "millrace/store/memory/memory_task_store.h"

namespace millrace::store {
namespace {

PhysicalQueueKey Queue(int n) { return {"ns", "q" + std::to_string(n), 0}; }

QueueWrite Lease(int queue) {
  QueueWrite write;
  write.queue = Queue(queue);
  write.metadata.emplace();
  write.metadata->range_id = RangeId{1};
  return write;
}

QueueWrite Create(int queue, std::int64_t id, Durability durability = Durability::kSynced) {
  QueueWrite write;
  write.queue = Queue(queue);
  write.expected_range_id = RangeId{1};
  write.creates.push_back({TaskKey{0, {0, TaskId{id}}}, WallTime{1}, WallTime{}, "payload"});
  write.durability = durability;
  return write;
}

// A memory store whose Commit waits at a door, and that remembers how large the groups were.
class DoorStore final : public TaskStore {
 public:
  void Close() {
    MutexLock lock(mutex_);
    open_ = false;
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void AwaitCommitAtDoor() {
    MutexLock lock(mutex_);
    while (at_door_ == 0) changed_.Wait(mutex_);
  }
  // The door for deletions.
  void CloseForDeletions() {
    MutexLock lock(mutex_);
    deletions_open_ = false;
  }
  void OpenForDeletions() {
    MutexLock lock(mutex_);
    deletions_open_ = true;
    changed_.NotifyAll();
  }
  void AwaitDeletionAtDoor() {
    MutexLock lock(mutex_);
    while (!deletion_at_door_) changed_.Wait(mutex_);
  }
  std::vector<std::size_t> groups() {
    MutexLock lock(mutex_);
    return groups_;
  }

  [[nodiscard]] StoreTraits traits() const override { return inner_.traits(); }
  std::vector<Status> Commit(std::span<const QueueWrite> writes) override {
    {
      MutexLock lock(mutex_);
      groups_.push_back(writes.size());
      ++at_door_;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mutex_);
      --at_door_;
    }
    return inner_.Commit(writes);
  }
  Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) override {
    return inner_.ReadMetadata(queue);
  }
  Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                             TaskLevel through, std::size_t limit, std::size_t bytes) override {
    return inner_.ReadTasks(queue, subqueue, from, through, limit, bytes);
  }
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                         Subqueue subqueue, TaskLevel through,
                                                         std::size_t limit) override {
    {
      MutexLock lock(mutex_);
      deletion_at_door_ = true;
      changed_.NotifyAll();
      while (!deletions_open_) changed_.Wait(mutex_);
    }
    return inner_.DeleteTasksThrough(queue, subqueue, through, limit);
  }
  Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                std::string_view after, std::size_t limit) override {
    return inner_.ReadSideRows(queue, prefix, after, limit);
  }
  Result<QueuePage> ListQueues(std::string_view token, std::size_t limit) override {
    return inner_.ListQueues(token, limit);
  }
  Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected) override {
    return inner_.DeleteQueue(queue, expected);
  }
  Status Health() override { return {StatusCode::kUnavailable, "from the store"}; }

 private:
  MemoryTaskStore inner_;
  Mutex mutex_;
  CondVar changed_;
  bool open_ MR_GUARDED_BY(mutex_) = true;
  int at_door_ MR_GUARDED_BY(mutex_) = 0;
  bool deletions_open_ MR_GUARDED_BY(mutex_) = true;
  bool deletion_at_door_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::size_t> groups_ MR_GUARDED_BY(mutex_);
};

class ThreadedTaskStoreTest : public ::testing::Test {
 protected:
  void Start(ThreadedTaskStoreConfig config = {}) {
    threaded_ = std::make_unique<ThreadedTaskStore>(store_, config, NullMetrics());
  }
  std::future<Status> Commit(QueueWrite write) {
    auto answer = std::make_shared<std::promise<Status>>();
    const PhysicalQueueKey queue = write.queue;
    const std::size_t creates = write.creates.size();
    threaded_->Commit(std::move(write), strand_,
                      [this, answer, queue, creates](Status status, QueueWrite back) {
                        strand_.AssertCurrent();
                        EXPECT_EQ(back.queue, queue);
                        EXPECT_EQ(back.creates.size(), creates);
                        answer->set_value(std::move(status));
                      });
    return answer->get_future();
  }

  SystemClock clock_;
  DoorStore store_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("test", clock_);
  exec::Strand strand_{*loop_};
  std::unique_ptr<ThreadedTaskStore> threaded_;
};

TEST_F(ThreadedTaskStoreTest, ADeletionMayTakeItsTimeWhileOthersCommit) {
  ThreadedTaskStoreConfig config;
  config.deletes_apart = true;
  Start(config);
  EXPECT_TRUE(Commit(Lease(1)).get().ok());
  store_.CloseForDeletions();
  std::promise<Status> deleted;
  threaded_->DeleteTasksThrough(
      Queue(1), 0, TaskLevel::Max(), 10, strand_,
      [&](const Result<std::optional<std::int64_t>>& rows) { deleted.set_value(rows.status()); });
  store_.AwaitDeletionAtDoor();
  EXPECT_TRUE(Commit(Create(1, 1)).get().ok());
  EXPECT_TRUE(Commit(Lease(2)).get().ok());
  store_.OpenForDeletions();
  EXPECT_TRUE(deleted.get_future().get().ok());
}

TEST_F(ThreadedTaskStoreTest, EveryOperationAnswersOnTheStrand) {
  Start();
  EXPECT_TRUE(Commit(Lease(1)).get().ok());
  EXPECT_EQ(Commit(Lease(1)).get().code(), StatusCode::kFenced);
  EXPECT_TRUE(Commit(Create(1, 1)).get().ok());

  std::promise<void> all;
  int left = 6;
  const auto one_done = [&] {
    strand_.AssertCurrent();
    if (--left == 0) all.set_value();
  };
  threaded_->ReadMetadata(Queue(1), strand_, [&](Result<QueueMetadata> read) {
    EXPECT_EQ(read->range_id, RangeId{1});
    one_done();
  });
  threaded_->ReadTasks(Queue(1), 0, TaskLevel::Min(), TaskLevel::Max(), 10, 100, strand_,
                       [&](Result<TaskPage> read) {
                         EXPECT_EQ(read->rows.size(), 1u);
                         one_done();
                       });
  threaded_->ReadSideRows(Queue(1), "", "", 10, strand_, [&](Result<SidePage> read) {
    EXPECT_TRUE(read.ok());
    one_done();
  });
  threaded_->ListQueues("", 10, strand_, [&](Result<QueuePage> read) {
    EXPECT_EQ(read->queues.size(), 1u);
    one_done();
  });
  threaded_->ListQueues("bad", 10, strand_, [&](Result<QueuePage> read) {
    EXPECT_EQ(read.code(), StatusCode::kInvalidArgument);
    one_done();
  });
  threaded_->DeleteQueue(Queue(2), RangeId{1}, strand_, [&](Status status) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    one_done();
  });
  all.get_future().get();

  std::promise<std::int64_t> deleted;
  threaded_->DeleteTasksThrough(
      Queue(1), 0, TaskLevel::Max(), 10, strand_,
      [&](Result<std::optional<std::int64_t>> n) { deleted.set_value(**n); });
  EXPECT_EQ(deleted.get_future().get(), 1);
  EXPECT_EQ(threaded_->Health().message(), "from the store");
  EXPECT_TRUE(threaded_->traits().exclusive);
}

TEST_F(ThreadedTaskStoreTest, WhatGathersDuringOneCommitIsTheNextGroup) {
  Start();
  store_.Close();
  std::vector<std::future<Status>> answers;
  answers.push_back(Commit(Lease(0)));
  store_.AwaitCommitAtDoor();
  for (int i = 1; i <= 100; ++i) answers.push_back(Commit(Lease(i)));
  for (int i = 1; i <= 100; ++i) answers.push_back(Commit(Create(i, 1)));
  store_.Open();
  for (std::future<Status>& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(store_.groups(), (std::vector<std::size_t>{1, 200}));
}

TEST_F(ThreadedTaskStoreTest, GroupsAreBoundedByWritesAndBytes) {
  ThreadedTaskStoreConfig config;
  config.group_writes_max = 3;
  config.group_bytes_max = 10'000;
  Start(config);
  store_.Close();
  std::vector<std::future<Status>> answers;
  answers.push_back(Commit(Lease(0)));
  store_.AwaitCommitAtDoor();
  for (int i = 1; i <= 4; ++i) answers.push_back(Commit(Create(0, i)));
  for (int i = 5; i <= 6; ++i) {
    QueueWrite large = Create(0, i);
    large.creates[0].payload.assign(20'000, 'x');
    answers.push_back(Commit(std::move(large)));
  }
  store_.Open();
  for (std::future<Status>& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(store_.groups(), (std::vector<std::size_t>{1, 3, 1, 1, 1}));
}

TEST_F(ThreadedTaskStoreTest, RelaxedWriteRidesAlong) {
  ThreadedTaskStoreConfig config;
  config.relaxed_write_delay = std::chrono::hours(10);
  Start(config);
  ASSERT_TRUE(Commit(Lease(0)).get().ok());
  std::future<Status> relaxed = Commit(Create(0, 1, Durability::kRelaxed));
  std::future<Status> synced = Commit(Create(0, 2));
  EXPECT_TRUE(relaxed.get().ok());
  EXPECT_TRUE(synced.get().ok());
  EXPECT_EQ(store_.groups(), (std::vector<std::size_t>{1, 2}));
}

TEST_F(ThreadedTaskStoreTest, RelaxedWriteAloneIsWrittenAfterTheDelay) {
  ThreadedTaskStoreConfig config;
  config.relaxed_write_delay = std::chrono::milliseconds(1);
  Start(config);
  ASSERT_TRUE(Commit(Lease(0)).get().ok());
  EXPECT_TRUE(Commit(Create(0, 1, Durability::kRelaxed)).get().ok());
}

TEST_F(ThreadedTaskStoreTest, ShutdownAnswersEverything) {
  ThreadedTaskStoreConfig config;
  config.relaxed_write_delay = std::chrono::hours(10);
  Start(config);
  store_.Close();
  std::vector<std::future<Status>> answers;
  answers.push_back(Commit(Lease(0)));
  store_.AwaitCommitAtDoor();
  for (int i = 1; i <= 50; ++i) answers.push_back(Commit(Create(0, i, Durability::kRelaxed)));
  std::promise<void> read;
  threaded_->ReadMetadata(Queue(0), strand_,
                          [&](const Result<QueueMetadata>&) { read.set_value(); });
  store_.Open();
  threaded_.reset();
  for (std::future<Status>& answer : answers) EXPECT_TRUE(answer.get().ok());
  read.get_future().get();
}

TEST_F(ThreadedTaskStoreTest, ManyStrandsManyWrites) {
  Start();
  constexpr int kQueues = 32;
  constexpr int kWrites = 200;
  struct Writer {
    explicit Writer(exec::Executor& home) : strand(home) {}
    exec::Strand strand;
    int queue = 0;
    int next = 0;
  };
  std::vector<std::unique_ptr<Writer>> writers;
  std::atomic<int> running = kQueues;
  std::promise<void> all;
  const std::function<void(Writer&)> step = [&](Writer& writer) {
    if (writer.next == kWrites) {
      if (--running == 0) all.set_value();
      return;
    }
    const int id = writer.next++;
    threaded_->Commit(id == 0 ? Lease(writer.queue) : Create(writer.queue, id), writer.strand,
                      [&](Status status, const QueueWrite&) {
                        EXPECT_TRUE(status.ok()) << status;
                        step(writer);
                      });
  };
  for (int i = 0; i < kQueues; ++i) {
    writers.push_back(std::make_unique<Writer>(*loop_));
    writers.back()->queue = i;
  }
  for (auto& writer : writers) writer->strand.Post([&] { step(*writer); });
  all.get_future().get();
  for (int i = 0; i < kQueues; ++i) {
    EXPECT_EQ(store_.ReadTasks(Queue(i), 0, TaskLevel::Min(), TaskLevel::Max(), 1'000, 1u << 30)
                  ->rows.size(),
              static_cast<std::size_t>(kWrites - 1));
  }
  threaded_.reset();
}

}  // namespace
}  // namespace millrace::store
