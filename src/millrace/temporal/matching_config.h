#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/backlog/config.h"
#include "millrace/base/time.h"

namespace millrace::temporal {

// Settings of the matching service. Read once at construction.
struct MatchingConfig {
  // Partitions of a task queue that are looked for when it is loaded, and listed. A call that names
  // a higher one is served all the same.
  std::int32_t partitions = 4;

  // A poll ends with an empty answer after this, or so long before its caller's deadline.
  Duration poll_wait_max = std::chrono::minutes(1);
  Duration poll_deadline_margin = std::chrono::seconds(1);
  // Answers that wait for something new to tell.
  Duration user_data_wait_max = std::chrono::minutes(5);

  // New tasks go to waiting pollers directly unless the oldest stored one waits longer than this.
  Duration sync_match_backlog_age_max = std::chrono::seconds(5);

  // Time limits of a start that history is asked for: while the caller that adds the task waits,
  // and for a stored task.
  Duration sync_start_timeout = std::chrono::seconds(1);
  Duration backlog_start_timeout = std::chrono::seconds(10);
  // A queue rests this long after a start that failed for no reason of the task's; doubles to the
  // max. The same for a poll after a start that met a busy workflow.
  Duration start_retry_min = std::chrono::milliseconds(50);
  Duration start_retry_max = std::chrono::seconds(1);

  // A sticky queue that no worker polled for so long takes no tasks.
  Duration sticky_unavailable_after = std::chrono::seconds(10);
  // Polls of a worker that shut down stay empty for so long.
  Duration worker_shutdown_memory = std::chrono::seconds(30);
  std::size_t worker_shutdowns_max = 10'000;

  // What Describe tells of workers.
  Duration poller_history = std::chrono::minutes(5);
  std::size_t poller_history_max = 1'000;

  // Per task queue. One more is refused with RESOURCE_EXHAUSTED.
  std::size_t pollers_max = 10'000;
  std::size_t adds_waiting_max = 1'000;  // For a queue that is being loaded.
  std::size_t partitions_max = 1'000;
  Duration load_wait_max = std::chrono::seconds(5);
  // A loaded queue without polls or calls is unloaded after this.
  Duration idle_unload = std::chrono::minutes(5);

  // Calls that wait for something new, of the whole process.
  std::size_t long_waits_max = 100'000;

  backlog::BacklogConfig backlog;
};

}  // namespace millrace::temporal
