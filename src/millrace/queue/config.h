#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/backlog/config.h"
#include "millrace/base/time.h"

namespace millrace::queue {

// Settings of the queue service. Read once at construction.
struct QueueConfig {
  // Requests.
  std::size_t payload_bytes_max = 1u << 20;
  std::size_t header_count_max = 64;
  std::size_t header_bytes_max = 8u << 10;  // Names and values of one task together.
  std::size_t items_per_request_max = 1'000;
  Duration lease_duration_default = std::chrono::seconds(30);
  Duration lease_duration_min = std::chrono::seconds(1);
  Duration lease_duration_max = std::chrono::hours(12);
  Duration poll_wait_max = std::chrono::seconds(60);
  // A long poll ends this long before the caller's deadline, so that it gets an empty ok answer.
  Duration poll_deadline_margin = std::chrono::milliseconds(200);

  // Total attempts of a task that names none; 0 = without end.
  std::int32_t max_attempts_default = 0;

  // Per queue. One more is refused with RESOURCE_EXHAUSTED (pollers) or waits (leases).
  std::size_t pollers_max = 10'000;
  std::size_t leases_max = 100'000;
  // Calls held while a queue is being loaded, and how long.
  std::size_t held_calls_max = 10'000;
  Duration load_wait_max = std::chrono::seconds(5);
  // Leases that ended by time and tasks that failed are written again, this many at once.
  std::size_t rewrites_in_flight_max = 256;

  // A loaded queue without tasks in hand, pollers or calls is unloaded after this.
  Duration idle_unload = std::chrono::minutes(5);

  // Rows read by one page of a peek that filters by state.
  std::size_t peek_scan_rows_max = 10'000;

  backlog::BacklogConfig backlog = StandaloneBacklog();

  // The engine's settings as the standalone queue wants them: bigger batches, since many callers
  // share one queue.
  static backlog::BacklogConfig StandaloneBacklog() {
    backlog::BacklogConfig config;
    config.outstanding_appends_max = 10'000;
    config.write_batch_max = 1'000;
    config.delete_on_finish = true;
    config.relaxed_write_delay = std::chrono::milliseconds(5);
    return config;
  }
};

}  // namespace millrace::queue
