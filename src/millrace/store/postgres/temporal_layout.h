#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/store/postgres/row_layout.h"

namespace millrace::store {

// What Temporal's TaskQueueInfo says of a queue and the engine's metadata does not, as a service
// that knows it would say it.
struct TemporalQueueFacts {
  std::int32_t kind = 1;  // 1 normal, 2 sticky, 3 worker commands.
  // Rows of sticky queues expire so long after their last update; 0 = never.
  Duration time_to_live = Duration::zero();
  // Of each subqueue that is new; those beyond have the default.
  std::vector<std::int32_t> priorities;
  bool other_has_tasks = false;
};

// Queues of Temporal's matching service, row for row as that service stores them: namespace id a
// UUID in its usual text form, task type 1 to 3, payloads that are TaskInfo messages. Owner state
// and what else the engine needs lies in millrace_queue_state; when Temporal wrote a queue since,
// its owner state is gone.
//
// Times are stored as Timestamps, so a task's create and expiry time are those of its TaskInfo: a
// payload that says otherwise is given the row's.
enum class TemporalTables : std::uint8_t {
  kClassic,  // task_queues and tasks; levels have pass 0.
  kFair,     // task_queues_v2 and tasks_v2; levels have a pass.
};

using TemporalFactsOf = std::function<TemporalQueueFacts(const PhysicalQueueKey&)>;

// `facts` is asked with each metadata row that is written; without it, a row that is there keeps
// its own, and a new one has the defaults. All else in a row that the engine does not decide on
// stays as it is (QueueMetadata::carried), fields that are unknown here too. Thread: as `facts`.
std::unique_ptr<RowLayout> MakeTemporalLayout(TemporalTables tables, TemporalFactsOf facts);

}  // namespace millrace::store
