#include "millrace/sim_world/audited_store.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "millrace/backlog/owner_state.h"
#include "millrace/core/task_id_block.h"

namespace millrace::sim {
namespace {

std::string Name(const store::PhysicalQueueKey& queue) {
  return queue.namespace_id + "/" + queue.persistence_name;
}

std::string Name(const store::TaskKey& key) {
  std::ostringstream out;
  out << key.subqueue << ":(" << key.level.pass << "," << key.level.id.value << ")";
  return out.str();
}

}  // namespace

AuditedStore::AuditedStore(Judge& judge, StoreWatcher& watcher, Rules rules)
    : judge_(judge),
      watcher_(watcher),
      rules_(rules),
      memory_(std::make_unique<store::MemoryTaskStore>()) {}

bool AuditedStore::MayFollow(const QueueImage* image, std::int64_t range_id) const {
  const std::int64_t stored = image == nullptr ? 0 : image->metadata.range_id.value;
  if (range_id == stored || range_id == stored + 1) return true;
  if (image == nullptr) return false;
  const auto state = backlog::DecodeOwnerState(image->metadata.owner_state);
  if (!state.ok() || state->range_size < 1) return false;
  return std::any_of(rules_.range_sizes.begin(), rules_.range_sizes.end(), [&](std::int64_t size) {
    const auto next = core::NextRangeId(RangeId{stored}, state->range_size, size);
    return next && next->value == range_id;
  });
}

bool AuditedStore::InBlock(std::int64_t id, std::int64_t range_id,
                           const store::QueueWrite& write) const {
  std::vector<std::int64_t> sizes = rules_.range_sizes;
  if (write.metadata) {
    // The owner says which size it uses.
    const auto state = backlog::DecodeOwnerState(write.metadata->owner_state);
    if (state.ok() && state->range_size > 0) sizes = {state->range_size};
  }
  return std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t size) {
    return id > (range_id - 1) * size && id <= range_id * size;
  });
}

void AuditedStore::CheckWrite(const store::QueueWrite& write) {
  const QueueImage* image = Image(write.queue);
  const std::int64_t stored = image == nullptr ? 0 : image->metadata.range_id.value;
  judge_.Expect(write.expected_range_id.value == stored, [&] {
    return "fenced write landed: queue " + Name(write.queue) + " is at range id " +
           std::to_string(stored) + ", the write expected " +
           std::to_string(write.expected_range_id.value);
  });
  std::int64_t block = stored;
  if (write.metadata) {
    block = write.metadata->range_id.value;
    judge_.Expect(MayFollow(image, block), [&] {
      return "range id of " + Name(write.queue) + " jumps from " + std::to_string(stored) + " to " +
             std::to_string(block);
    });
    if (image != nullptr && !write.keep_owner_state) {
      for (std::size_t i = 0; i < image->metadata.subqueues.size(); ++i) {
        judge_.Expect(
            i < write.metadata->subqueues.size() &&
                write.metadata->subqueues[i].ack_level >= image->metadata.subqueues[i].ack_level,
            [&] { return "stored ack level of " + Name(write.queue) + " goes back"; });
      }
    }
    for (const store::SubqueueMetadata& subqueue : write.metadata->subqueues) {
      judge_.Expect(subqueue.approximate_count >= 0, [&] {
        return "stored backlog count of " + Name(write.queue) + " is negative";
      });
    }
  }
  std::set<store::TaskKey>& used = used_[write.queue];
  for (const store::TaskRow& row : write.creates) {
    judge_.Expect(used.insert(row.key).second,
                  [&] { return "id used twice: " + Name(write.queue) + " " + Name(row.key); });
    const std::int64_t id = row.key.level.id.value;
    judge_.Expect(InBlock(id, stored, write) || InBlock(id, block, write), [&] {
      return "id " + Name(row.key) + " of " + Name(write.queue) +
             " is outside the block of range id " + std::to_string(block);
    });
  }
}

std::vector<store::TaskRow> AuditedStore::ApplyTo(Images& images, const store::QueueWrite& write) {
  QueueImage& image = images[write.queue];
  std::vector<store::TaskRow> removed;
  for (const store::TaskRow& row : write.creates) image.rows[row.key] = row;
  for (const store::TaskKey& key : write.deletes) {
    auto node = image.rows.extract(key);
    if (!node.empty()) removed.push_back(std::move(node.mapped()));
  }
  for (const std::string& key : write.side_deletes) image.side_rows.erase(key);
  for (const store::SideRow& row : write.side_puts) image.side_rows[row.key] = row.value;
  if (write.metadata && write.keep_owner_state) {
    image.metadata.range_id = write.metadata->range_id;
    image.metadata.update_time = write.metadata->update_time;
  } else if (write.metadata) {
    image.metadata = *write.metadata;
  }
  return removed;
}

std::vector<store::TaskRow> AuditedStore::ApplyTo(Images& images, const Gc& gc) {
  std::vector<store::TaskRow> removed;
  const auto it = images.find(gc.queue);
  if (it == images.end()) return removed;
  auto& rows = it->second.rows;
  for (auto row = rows.begin(); row != rows.end() && removed.size() < gc.limit;) {
    if (row->first.subqueue == gc.subqueue && row->first.level <= gc.through) {
      removed.push_back(std::move(row->second));
      row = rows.erase(row);
    } else {
      ++row;
    }
  }
  return removed;
}

void AuditedStore::Record(Entry entry, bool synced) {
  unsynced_.push_back(std::move(entry));
  if (!synced) return;
  for (const Entry& e : unsynced_) {
    if (const auto* write = std::get_if<store::QueueWrite>(&e)) {
      ApplyTo(synced_images_, *write);
    } else {
      ApplyTo(synced_images_, std::get<Gc>(e));
    }
  }
  unsynced_.clear();
}

std::vector<Status> AuditedStore::Commit(std::span<const store::QueueWrite> writes) {
  std::vector<Status> result;
  for (const store::QueueWrite& write : writes) {
    Status status = memory_->Commit(std::span<const store::QueueWrite>(&write, 1))[0];
    if (status.ok()) {
      CheckWrite(write);
      AppliedChange change{write.queue, images_[write.queue], {}, {}, false, false, false};
      change.removed = ApplyTo(images_, write);
      for (const store::TaskRow& row : write.creates) change.created.push_back(&row);
      change.metadata_written = write.metadata.has_value();
      change.synced = write.durability == store::Durability::kSynced;
      Record(write, change.synced);
      watcher_.OnApplied(change);
    }
    result.push_back(std::move(status));
  }
  return result;
}

Result<store::QueueMetadata> AuditedStore::ReadMetadata(const store::PhysicalQueueKey& queue) {
  return memory_->ReadMetadata(queue);
}

Result<store::TaskPage> AuditedStore::ReadTasks(const store::PhysicalQueueKey& queue,
                                                store::Subqueue subqueue, store::TaskLevel from,
                                                store::TaskLevel through, std::size_t limit,
                                                std::size_t max_bytes) {
  return memory_->ReadTasks(queue, subqueue, from, through, limit, max_bytes);
}

Result<std::optional<std::int64_t>> AuditedStore::DeleteTasksThrough(
    const store::PhysicalQueueKey& queue, store::Subqueue subqueue, store::TaskLevel through,
    std::size_t limit) {
  auto result = memory_->DeleteTasksThrough(queue, subqueue, through, limit);
  if (result.ok() && Image(queue) != nullptr) {
    AppliedChange change{queue, images_[queue], {}, {}, false, false, true};
    const Gc gc{queue, subqueue, through, limit};
    change.removed = ApplyTo(images_, gc);
    judge_.Expect(static_cast<std::int64_t>(change.removed.size()) == result->value_or(-1), [&] {
      return "the store deleted another number of rows than the picture of it";
    });
    Record(gc, false);
    watcher_.OnApplied(change);
  }
  return result;
}

Result<store::SidePage> AuditedStore::ReadSideRows(const store::PhysicalQueueKey& queue,
                                                   std::string_view prefix, std::string_view after,
                                                   std::size_t limit) {
  return memory_->ReadSideRows(queue, prefix, after, limit);
}

Result<store::QueuePage> AuditedStore::ListQueues(std::string_view page_token, std::size_t limit) {
  return memory_->ListQueues(page_token, limit);
}

Status AuditedStore::DeleteQueue(const store::PhysicalQueueKey&, RangeId) {
  // No simulated client deletes queues yet.
  return {StatusCode::kInvalidArgument, "simulated store: queues are not deleted"};
}

void AuditedStore::LosePower() {
  unsynced_.clear();
  images_ = synced_images_;
  memory_ = std::make_unique<store::MemoryTaskStore>();
  for (const auto& [queue, image] : images_) {
    store::QueueWrite write;
    write.queue = queue;
    write.metadata = image.metadata;
    for (const auto& [key, row] : image.rows) write.creates.push_back(row);
    for (const auto& [key, value] : image.side_rows) write.side_puts.push_back({key, value});
    const Status status = memory_->Commit(std::span<const store::QueueWrite>(&write, 1))[0];
    judge_.Expect(status.ok(), [&] { return "restoring the store failed: " + status.ToString(); });
  }
  watcher_.OnPowerLoss(images_);
}

const QueueImage* AuditedStore::Image(const store::PhysicalQueueKey& queue) const {
  const auto it = images_.find(queue);
  return it == images_.end() || it->second.metadata.range_id.value == 0 ? nullptr : &it->second;
}

void AuditedStore::CheckAgainstStore() {
  for (const auto& [queue, image] : images_) {
    if (image.metadata.range_id.value == 0) continue;
    const auto metadata = memory_->ReadMetadata(queue);
    judge_.Expect(metadata.ok() && *metadata == image.metadata,
                  [&] { return "stored metadata of " + Name(queue) + " is not what was written"; });
    const auto page =
        memory_->ReadTasks(queue, 0, {}, store::TaskLevel::Max(), 1'000'000, 1u << 30);
    std::size_t rows = 0;
    for (const auto& [key, row] : image.rows) rows += key.subqueue == 0 ? 1 : 0;
    judge_.Expect(page.ok() && page->rows.size() == rows,
                  [&] { return "stored rows of " + Name(queue) + " are not what was written"; });
  }
}

}  // namespace millrace::sim
