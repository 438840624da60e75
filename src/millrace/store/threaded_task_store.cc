#include "millrace/store/threaded_task_store.h"

#include <utility>

#include "millrace/store/commit_thread.h"
#include "millrace/store/read_threads.h"

namespace millrace::store {
namespace {

template <typename Done, typename Answer>
void Reply(exec::Strand& strand, Done done, Answer answer) {
  strand.Post(
      [done = std::move(done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

}  // namespace

ThreadedTaskStore::ThreadedTaskStore(TaskStore& store, const ThreadedTaskStoreConfig& config,
                                     Metrics& metrics)
    : store_(store),
      commits_(std::make_unique<CommitThread>(store, config, metrics)),
      reads_(std::make_unique<ReadThreads>(config.read_threads)) {
  if (config.deletes_apart) deletes_ = std::make_unique<ReadThreads>(1);
}

ThreadedTaskStore::~ThreadedTaskStore() = default;

StoreTraits ThreadedTaskStore::traits() const { return store_.traits(); }

void ThreadedTaskStore::Commit(QueueWrite write, exec::Strand& strand, CommitCallback done) {
  commits_->Commit(std::move(write), strand, std::move(done));
}

void ThreadedTaskStore::ReadMetadata(const PhysicalQueueKey& queue, exec::Strand& strand,
                                     Callback<QueueMetadata> done) {
  reads_->Run([this, queue, &strand, done = std::move(done)]() mutable {
    Reply(strand, std::move(done), store_.ReadMetadata(queue));
  });
}

void ThreadedTaskStore::ReadRangeIds(std::vector<PhysicalQueueKey> queues, exec::Strand& strand,
                                     UniqueFunction<void(std::vector<Result<RangeId>>)> done) {
  reads_->Run([this, queues = std::move(queues), &strand, done = std::move(done)]() mutable {
    Reply(strand, std::move(done), store_.ReadRangeIds(queues));
  });
}

void ThreadedTaskStore::ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                                  TaskLevel through, std::size_t limit, std::size_t max_bytes,
                                  exec::Strand& strand, Callback<TaskPage> done) {
  reads_->Run([this, queue, subqueue, from, through, limit, max_bytes, &strand,
               done = std::move(done)]() mutable {
    Reply(strand, std::move(done),
          store_.ReadTasks(queue, subqueue, from, through, limit, max_bytes));
  });
}

void ThreadedTaskStore::DeleteTasksThrough(const PhysicalQueueKey& queue, Subqueue subqueue,
                                           TaskLevel through, std::size_t limit,
                                           exec::Strand& strand,
                                           Callback<std::optional<std::int64_t>> done) {
  Closure deletion = [this, queue, subqueue, through, limit, &strand,
                      done = std::move(done)]() mutable {
    Reply(strand, std::move(done), store_.DeleteTasksThrough(queue, subqueue, through, limit));
  };
  if (deletes_ != nullptr) return deletes_->Run(std::move(deletion));
  commits_->Run(std::move(deletion));
}

void ThreadedTaskStore::ReadSideRows(const PhysicalQueueKey& queue, std::string prefix,
                                     std::string after, std::size_t limit, exec::Strand& strand,
                                     Callback<SidePage> done) {
  reads_->Run([this, queue, prefix = std::move(prefix), after = std::move(after), limit, &strand,
               done = std::move(done)]() mutable {
    Reply(strand, std::move(done), store_.ReadSideRows(queue, prefix, after, limit));
  });
}

void ThreadedTaskStore::ListQueues(std::string page_token, std::size_t limit, exec::Strand& strand,
                                   Callback<QueuePage> done) {
  reads_->Run(
      [this, page_token = std::move(page_token), limit, &strand, done = std::move(done)]() mutable {
        Reply(strand, std::move(done), store_.ListQueues(page_token, limit));
      });
}

void ThreadedTaskStore::DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id,
                                    exec::Strand& strand, StatusCallback done) {
  commits_->Run([this, queue, expected_range_id, &strand, done = std::move(done)]() mutable {
    Reply(strand, std::move(done), store_.DeleteQueue(queue, expected_range_id));
  });
}

Status ThreadedTaskStore::Health() { return store_.Health(); }

}  // namespace millrace::store
