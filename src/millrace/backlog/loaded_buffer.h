#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "millrace/backlog/types.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

// Tasks of one subqueue held in memory for whoever takes them, in level order.
//
// Bounds: none of its own; the reader stops by size() and bytes(). Holds no memory when empty.
class LoadedBuffer {
 public:
  [[nodiscard]] bool empty() const { return head_ == tasks_.size(); }
  [[nodiscard]] std::size_t size() const { return tasks_.size() - head_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const LoadedTask& front() const { return tasks_[head_]; }

  [[nodiscard]] auto begin() const { return tasks_.begin() + static_cast<std::ptrdiff_t>(head_); }
  [[nodiscard]] auto end() const { return tasks_.end(); }

  // Behind all others.
  void PushBack(LoadedTask task) {
    bytes_ += task.payload.size();
    tasks_.push_back(std::move(task));
  }

  // To its place by level. Ignored when it is there already.
  void Insert(LoadedTask task) {
    const auto at = std::lower_bound(tasks_.begin() + static_cast<std::ptrdiff_t>(head_),
                                     tasks_.end(), task.key.level,
                                     [](const LoadedTask& other, const store::TaskLevel& level) {
                                       return other.key.level < level;
                                     });
    if (at != tasks_.end() && at->key.level == task.key.level) return;
    bytes_ += task.payload.size();
    if (head_ > 0 && at == tasks_.begin() + static_cast<std::ptrdiff_t>(head_)) {
      tasks_[--head_] = std::move(task);
    } else {
      tasks_.insert(at, std::move(task));
    }
  }

  LoadedTask PopFront() {
    LoadedTask task = std::move(tasks_[head_++]);
    bytes_ -= task.payload.size();
    if (head_ == tasks_.size()) {
      Clear();
    } else if (head_ >= 64 && head_ * 2 >= tasks_.size()) {
      tasks_.erase(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return task;
  }

  // Where the task of this level is, for removal out of order; null when it is not here.
  bool Remove(const store::TaskLevel& level) {
    const auto first = tasks_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto at = std::lower_bound(first, tasks_.end(), level,
                                     [](const LoadedTask& other, const store::TaskLevel& wanted) {
                                       return other.key.level < wanted;
                                     });
    if (at == tasks_.end() || at->key.level != level) return false;
    bytes_ -= at->payload.size();
    tasks_.erase(at);
    if (head_ == tasks_.size()) Clear();
    return true;
  }

  void Clear() {
    std::vector<LoadedTask>().swap(tasks_);
    head_ = 0;
    bytes_ = 0;
  }

 private:
  std::vector<LoadedTask> tasks_;
  std::size_t head_ = 0;  // Those before are spent.
  std::size_t bytes_ = 0;
};

}  // namespace millrace::backlog
