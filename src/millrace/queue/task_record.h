#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/ids.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"

namespace millrace::queue {

// Attempts are counted up to here and no further, so that "one more" is still a number.
inline constexpr std::int32_t kAttemptsEndedMax = std::numeric_limits<std::int32_t>::max() - 1;

// What the queue keeps of a task inside the engine's opaque payload. Views point into the stored
// bytes or the request. Layout: docs/storage_format.md, "Task record".
struct TaskRecord {
  // The id the task got when it was accepted; 0 = the row's own id (it was never written again).
  TaskId first_id;
  std::int32_t attempts_ended = 0;  // Attempts that failed or whose lease ran out.
  std::int32_t max_attempts = 0;    // 0 = without end.
  // When the task was accepted; not set = the row's own create time.
  WallTime enqueue_time;
  std::vector<std::pair<std::string_view, std::string_view>> headers;
  std::string_view payload;
};

std::string EncodeTaskRecord(const TaskRecord& record);
// kCorruption when the bytes are not a task record this version knows.
Result<TaskRecord> DecodeTaskRecord(std::string_view bytes);

// A task set aside for good, as a side row.
struct DeadTask {
  WallTime death_time;
  std::string_view error_message;
  std::string_view record;  // The task record as it was, with first_id and enqueue_time filled in.
};

std::string EncodeDeadTask(const DeadTask& dead);
Result<DeadTask> DecodeDeadTask(std::string_view bytes);

// The id users see: the queue's uid and the first id, "9f3c21d07a5e44b1-2a".
std::string PublicTaskId(std::uint64_t queue_uid, TaskId first_id);

}  // namespace millrace::queue
