#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/base/time.h"

namespace millrace::backlog {

// Settings of one backlog. Read once at construction; all bounds are per queue unless said
// otherwise.
struct BacklogConfig {
  // Task ids of one block, owned by one range id. >= 1.
  std::int64_t range_size = 100'000;

  // Rows waiting to be written; one more is refused with kResourceExhausted at once.
  std::size_t outstanding_appends_max = 250;
  // Rows of one conditional write, and their payload bytes (one row may exceed the bytes alone).
  std::size_t write_batch_max = 100;
  std::size_t write_batch_bytes_max = 4u << 20;

  // How long what nobody waits for (remembered leases, deletion of expired rows) may wait for a
  // write that it can ride along with.
  Duration relaxed_write_delay = Duration::zero();

  // Tasks and payload bytes held in memory waiting for a poller. The reader stops at either and
  // goes on below half.
  std::size_t page_size = 1'000;
  std::size_t page_bytes_max = 8u << 20;
  // Empty id ranges the reader walks over before it lets other work of the strand run.
  int empty_ranges_per_turn_max = 10;

  // Deletion of finished rows (not used with delete_on_finish).
  std::size_t gc_batch = 100;
  Duration gc_interval = std::chrono::seconds(1);

  // Changed metadata is written within this time. Owners that share their store compare the range
  // ids of all their queues this often (OwnerWatch).
  Duration update_interval = std::chrono::minutes(1);

  // Time limit of the final metadata write and of one deletion at Stop.
  Duration final_io_timeout = std::chrono::seconds(5);

  // Waits: reads refused by a limit; start and cap of the back-off after other store errors.
  Duration throttled_read_wait = std::chrono::seconds(3);
  Duration store_retry_min = std::chrono::milliseconds(50);
  Duration store_retry_max = std::chrono::seconds(5);

  // Rewriting a task that could not be started.
  Duration rewrite_retry_min = std::chrono::milliseconds(50);
  Duration rewrite_retry_max = std::chrono::seconds(1);
  Duration rewrite_retry_total = std::chrono::seconds(30);

  // True: a finished task's row is deleted, durably, by the write that finishes it, before Finish
  // answers; it can never come back, whatever the ack level (the standalone queue). False:
  // finishing only moves the ack level in memory, and rows go by GC (Temporal's behaviour).
  bool delete_on_finish = false;
};

}  // namespace millrace::backlog
