#pragma once

#include <atomic>
#include <cstdint>

#include "millrace/base/time.h"

namespace millrace::queue {

// What a scrape may read of a loaded queue without waiting for its strand. Written on the strand
// after each conditional write. Thread: any.
struct QueueGauges {
  std::atomic<std::int64_t> waiting{0};
  std::atomic<std::int64_t> leased{0};
  std::atomic<std::int64_t> dead{0};
  // Ids between the ack level and the highest one any write may have used.
  std::atomic<std::int64_t> ack_lag{0};
  // Create time of the head of the backlog, nanoseconds since the epoch; 0 = nothing waits.
  std::atomic<std::int64_t> head_create_ns{0};
};

}  // namespace millrace::queue
