#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/base/ids.h"
#include "millrace/store/types.h"

namespace millrace::store {

// What is known about the rows of one queue without reading them.
struct CachedQueue {
  RangeId range_id;  // 0 = the queue does not exist.

  // No row of the subqueue is at or below the level: it was deleted, and its tombstones need not be
  // walked over again.
  std::vector<std::pair<Subqueue, TaskLevel>> deleted_through;

  TaskLevel* DeletedThrough(Subqueue subqueue) {
    for (auto& [number, level] : deleted_through) {
      if (number == subqueue) return &level;
    }
    return &deleted_through.emplace_back(subqueue, TaskLevel::Min()).second;
  }
  // A row was created that may lie below.
  void ForgetDeletedFrom(const TaskKey& key) {
    for (auto& [number, level] : deleted_through) {
      if (number == key.subqueue && key.level <= level) level = TaskLevel::Min();
    }
  }
};

// Queues by encoded key, for the single writer of a data directory. Thread: one at a time.
// Bounds: `capacity` queues after Trim; beyond that any are forgotten. Not in between: what one
// group of writes changed is known only here until the group is written.
class QueueCache {
 public:
  explicit QueueCache(std::size_t capacity) : capacity_(capacity) {}

  // Null when not known. Pointers are good until Trim or Clear.
  CachedQueue* Find(std::string_view queue) {
    const auto it = queues_.find(queue);
    return it == queues_.end() ? nullptr : &it->second;
  }
  CachedQueue* Insert(std::string_view queue, RangeId range_id) {
    CachedQueue& cached = queues_[std::string(queue)];
    cached = CachedQueue{range_id, {}};
    return &cached;
  }
  void Trim() {
    while (queues_.size() > capacity_) queues_.erase(queues_.begin());
  }
  void Clear() { queues_.clear(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>()(key);
    }
  };

  const std::size_t capacity_;
  std::unordered_map<std::string, CachedQueue, Hash, std::equal_to<>> queues_;
};

}  // namespace millrace::store
