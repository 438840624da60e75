#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/store/rocksdb/rocks_task_store.h"

namespace millrace::store {

// Keeps the messages of its lines, with their fields' names and values behind them. Thread: any.
class RecordingLog final : public Log {
 public:
  [[nodiscard]] bool Enabled(LogLevel) const override { return true; }
  void Write(LogLevel, std::string_view, std::string_view message,
             std::initializer_list<LogField> fields) override {
    std::string line(message);
    for (const LogField& field : fields) {
      line.append(" ").append(field.name).append("=");
      if (const auto* text = std::get_if<std::string_view>(&field.value)) line.append(*text);
      if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
        line.append(std::to_string(*number));
      }
    }
    MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
    written_.NotifyAll();
  }
  // The lines with `part` in them.
  std::vector<std::string> Find(std::string_view part) {
    MutexLock lock(mutex_);
    return FindLocked(part);
  }
  void AwaitLine(std::string_view part) {
    MutexLock lock(mutex_);
    while (FindLocked(part).empty()) written_.Wait(mutex_);
  }

 private:
  std::vector<std::string> FindLocked(std::string_view part) MR_REQUIRES(mutex_) {
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  Mutex mutex_;
  CondVar written_;
  std::vector<std::string> lines_ MR_GUARDED_BY(mutex_);
};

inline QueueMetadata TestMetadata(std::int64_t range_id) {
  QueueMetadata metadata;
  metadata.range_id = RangeId{range_id};
  metadata.subqueues.emplace_back();
  return metadata;
}

inline QueueWrite TestLease(const std::string& queue, std::int64_t range_id = 1) {
  QueueWrite write;
  write.queue = {"ns", queue, 0};
  write.expected_range_id = RangeId{range_id - 1};
  write.metadata = TestMetadata(range_id);
  return write;
}

inline QueueWrite TestCreate(const std::string& queue, std::int64_t id, std::int64_t range_id = 1,
                             std::string payload = "payload") {
  QueueWrite write;
  write.queue = {"ns", queue, 0};
  write.expected_range_id = RangeId{range_id};
  write.creates.push_back(
      {TaskKey{0, {0, TaskId{id}}}, WallTime{1}, WallTime{}, std::move(payload)});
  return write;
}

inline Status CommitOne(TaskStore& store, const QueueWrite& write) {
  return store.Commit({&write, 1}).at(0);
}

// The ids of all tasks of subqueue 0, or nothing but -1 when they cannot be read.
inline std::vector<std::int64_t> TaskIds(TaskStore& store, const std::string& queue) {
  Result<TaskPage> page = store.ReadTasks({"ns", queue, 0}, 0, TaskLevel::Min(), TaskLevel::Max(),
                                          1'000'000, std::size_t{1} << 40);
  if (!page.ok()) return {-1};
  std::vector<std::int64_t> ids;
  for (const TaskRow& row : page->rows) ids.push_back(row.key.level.id.value);
  return ids;
}

}  // namespace millrace::store
