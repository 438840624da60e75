#include "millrace/store/memory/memory_task_store.h"

#include <utility>

#include "millrace/base/mutation.h"
#include "millrace/store/key_encoding.h"
#include "millrace/store/validate.h"

namespace millrace::store {

MemoryTaskStore::Queue* MemoryTaskStore::Find(const PhysicalQueueKey& queue) {
  const auto it = queues_.find(EncodeQueueKey(queue));
  return it == queues_.end() ? nullptr : &it->second;
}

std::vector<Status> MemoryTaskStore::Commit(std::span<const QueueWrite> writes) {
  std::vector<Status> results;
  results.reserve(writes.size());
  MutexLock lock(mutex_);
  for (const QueueWrite& write : writes) results.push_back(CommitOne(write));
  return results;
}

Status MemoryTaskStore::CommitOne(const QueueWrite& write) {
  MR_RETURN_IF_ERROR(ValidateWrite(write));
  Queue* queue = Find(write.queue);
  const RangeId stored = queue == nullptr ? RangeId{} : queue->metadata.range_id;
  if (stored != write.expected_range_id && (queue == nullptr || !MR_MUTANT(range_id_not_checked)))
    return FencedStatus(write.expected_range_id, stored);
  if (queue == nullptr) {
    queue = &queues_[EncodeQueueKey(write.queue)];
    queue->key = write.queue;
  }
  if (write.metadata && write.keep_owner_state && !MR_MUTANT(keep_owner_state_ignored)) {
    queue->metadata.range_id = write.metadata->range_id;
    queue->metadata.update_time = write.metadata->update_time;
  } else if (write.metadata) {
    queue->metadata = *write.metadata;
  }
  for (const TaskRow& row : write.creates) queue->tasks.insert_or_assign(row.key, row);
  for (const TaskKey& key : write.deletes) queue->tasks.erase(key);
  for (const std::string& key : write.side_deletes) queue->side_rows.erase(key);
  for (const SideRow& row : write.side_puts) queue->side_rows.insert_or_assign(row.key, row.value);
  return {};
}

Result<QueueMetadata> MemoryTaskStore::ReadMetadata(const PhysicalQueueKey& queue) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MutexLock lock(mutex_);
  const Queue* found = Find(queue);
  if (found == nullptr) return Status(StatusCode::kNotFound, "no such queue");
  return found->metadata;
}

Result<TaskPage> MemoryTaskStore::ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue,
                                            TaskLevel from, TaskLevel through, std::size_t limit,
                                            std::size_t max_bytes) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  TaskPage page;
  MutexLock lock(mutex_);
  const Queue* found = Find(queue);
  if (found == nullptr) return page;
  const TaskKey end{subqueue, through};
  std::size_t bytes = 0;
  for (auto it = found->tasks.lower_bound(TaskKey{subqueue, from});
       it != found->tasks.end() && it->first <= end; ++it) {
    const TaskRow& row = it->second;
    if (!page.rows.empty() &&
        (page.rows.size() == limit || bytes + row.payload.size() > max_bytes)) {
      page.more = true;
      break;
    }
    bytes += row.payload.size();
    page.rows.push_back(row);
  }
  return page;
}

Result<std::optional<std::int64_t>> MemoryTaskStore::DeleteTasksThrough(
    const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel through, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  std::int64_t deleted = 0;
  MutexLock lock(mutex_);
  Queue* found = Find(queue);
  if (found == nullptr) return std::optional(deleted);
  const TaskKey end{subqueue, through};
  auto it = found->tasks.lower_bound(TaskKey{subqueue, TaskLevel::Min()});
  while (it != found->tasks.end() && it->first <= end &&
         static_cast<std::size_t>(deleted) < limit) {
    it = found->tasks.erase(it);
    ++deleted;
  }
  return std::optional(deleted);
}

Result<SidePage> MemoryTaskStore::ReadSideRows(const PhysicalQueueKey& queue,
                                               std::string_view prefix, std::string_view after,
                                               std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  SidePage page;
  MutexLock lock(mutex_);
  const Queue* found = Find(queue);
  if (found == nullptr) return page;
  auto it =
      after < prefix ? found->side_rows.lower_bound(prefix) : found->side_rows.upper_bound(after);
  // Keys are never empty, so an empty prefix and `after` start at the first one either way.
  for (; it != found->side_rows.end() && it->first.starts_with(prefix); ++it) {
    if (page.rows.size() == limit) {
      page.more = true;
      break;
    }
    page.rows.push_back(SideRow{it->first, it->second});
  }
  return page;
}

Result<QueuePage> MemoryTaskStore::ListQueues(std::string_view page_token, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  Result<std::string> after = DecodePageToken(page_token);
  if (!after.ok()) return after.status();
  QueuePage page;
  MutexLock lock(mutex_);
  for (auto it = queues_.upper_bound(*after); it != queues_.end(); ++it) {
    if (page.queues.size() == limit) {
      page.next_page_token = EncodePageToken(EncodeQueueKey(page.queues.back().key));
      break;
    }
    page.queues.push_back(QueueEntry{it->second.key, it->second.metadata});
  }
  return page;
}

Status MemoryTaskStore::DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MutexLock lock(mutex_);
  const auto it = queues_.find(EncodeQueueKey(queue));
  if (it == queues_.end()) return {StatusCode::kNotFound, "no such queue"};
  const RangeId stored = it->second.metadata.range_id;
  if (stored != expected_range_id) return FencedStatus(expected_range_id, stored);
  queues_.erase(it);
  return {};
}

}  // namespace millrace::store
