#include "millrace/store/split_task_store.h"

#include <algorithm>
#include <utility>

namespace millrace::store {
namespace {

// The first byte of a page token says whose page comes next.
constexpr char kWithoutType = '0';
constexpr char kWithType = '1';

}  // namespace

SplitTaskStore::SplitTaskStore(std::unique_ptr<TaskStore> without_type,
                               std::unique_ptr<TaskStore> with_type)
    : without_type_(std::move(without_type)), with_type_(std::move(with_type)) {}

StoreTraits SplitTaskStore::traits() const {
  const StoreTraits a = without_type_->traits();
  const StoreTraits b = with_type_->traits();
  return {.exclusive = a.exclusive && b.exclusive,
          .counts_deletes = a.counts_deletes && b.counts_deletes};
}

std::vector<Status> SplitTaskStore::Commit(std::span<const QueueWrite> writes) {
  const auto typed = [](const QueueWrite& write) { return write.queue.task_type != 0; };
  const auto some = static_cast<std::size_t>(std::count_if(writes.begin(), writes.end(), typed));
  if (some == 0) return without_type_->Commit(writes);
  if (some == writes.size()) return with_type_->Commit(writes);
  // Each store gets its own in their order; writes of one queue are all in one.
  std::vector<QueueWrite> parts[2];
  for (const QueueWrite& write : writes) parts[typed(write) ? 1 : 0].push_back(write);
  const std::vector<Status> plain = without_type_->Commit(parts[0]);
  const std::vector<Status> with = with_type_->Commit(parts[1]);
  std::vector<Status> all;
  std::size_t next[2] = {0, 0};
  for (const QueueWrite& write : writes) {
    all.push_back(typed(write) ? with[next[1]++] : plain[next[0]++]);
  }
  return all;
}

std::vector<Result<RangeId>> SplitTaskStore::ReadRangeIds(
    std::span<const PhysicalQueueKey> queues) {
  std::vector<PhysicalQueueKey> parts[2];
  for (const PhysicalQueueKey& queue : queues) parts[queue.task_type == 0 ? 0 : 1].push_back(queue);
  std::vector<Result<RangeId>> found[2];
  if (!parts[0].empty()) found[0] = without_type_->ReadRangeIds(parts[0]);
  if (!parts[1].empty()) found[1] = with_type_->ReadRangeIds(parts[1]);
  std::vector<Result<RangeId>> all;
  all.reserve(queues.size());
  std::size_t next[2] = {0, 0};
  for (const PhysicalQueueKey& queue : queues) {
    const std::size_t part = queue.task_type == 0 ? 0 : 1;
    all.push_back(std::move(found[part][next[part]++]));
  }
  return all;
}

Result<QueueMetadata> SplitTaskStore::ReadMetadata(const PhysicalQueueKey& queue) {
  return Of(queue).ReadMetadata(queue);
}

Result<TaskPage> SplitTaskStore::ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue,
                                           TaskLevel from, TaskLevel through, std::size_t limit,
                                           std::size_t max_bytes) {
  return Of(queue).ReadTasks(queue, subqueue, from, through, limit, max_bytes);
}

Result<std::optional<std::int64_t>> SplitTaskStore::DeleteTasksThrough(
    const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel through, std::size_t limit) {
  return Of(queue).DeleteTasksThrough(queue, subqueue, through, limit);
}

Result<SidePage> SplitTaskStore::ReadSideRows(const PhysicalQueueKey& queue,
                                              std::string_view prefix, std::string_view after,
                                              std::size_t limit) {
  return Of(queue).ReadSideRows(queue, prefix, after, limit);
}

Result<QueuePage> SplitTaskStore::ListQueues(std::string_view page_token, std::size_t limit) {
  const char whose = page_token.empty() ? kWithoutType : page_token.front();
  if (whose != kWithoutType && whose != kWithType) {
    return Status(StatusCode::kInvalidArgument, "not a page token of this store");
  }
  if (!page_token.empty()) page_token.remove_prefix(1);
  TaskStore& store = whose == kWithoutType ? *without_type_ : *with_type_;
  Result<QueuePage> page = store.ListQueues(page_token, limit);
  if (!page.ok()) return page;
  // A store may list what lies in the same tables and is not asked of it.
  std::erase_if(page->queues, [&](const QueueEntry& entry) {
    return (entry.key.task_type != 0) != (whose == kWithType);
  });
  if (!page->next_page_token.empty()) {
    page->next_page_token.insert(page->next_page_token.begin(), whose);
  } else if (whose == kWithoutType) {
    if (page->queues.size() < limit) {
      // Nothing of a page is wasted.
      Result<QueuePage> rest = ListQueues(std::string(1, kWithType), limit - page->queues.size());
      if (!rest.ok()) return rest;
      for (QueueEntry& entry : rest->queues) page->queues.push_back(std::move(entry));
      page->next_page_token = std::move(rest->next_page_token);
    } else {
      page->next_page_token = kWithType;
    }
  }
  return page;
}

Status SplitTaskStore::DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) {
  return Of(queue).DeleteQueue(queue, expected_range_id);
}

Status SplitTaskStore::Health() {
  const Status health = without_type_->Health();
  return health.ok() ? with_type_->Health() : health;
}

}  // namespace millrace::store
