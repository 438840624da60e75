#pragma once

#include "millrace/base/metrics.h"

namespace millrace::backlog {

// Counters shared by all backlogs of a process. Gauges of one queue (count, head age, lag) are
// derived by the layer above from the status calls, so that they go away with the queue.
struct BacklogMetrics {
  static BacklogMetrics Create(Metrics& metrics);

  Counter& writes;           // Conditional writes that were applied.
  Counter& write_failures;   // Refused, or of unknown outcome.
  Counter& write_throttles;  // Refused by a limit of the store.
  Histogram& write_seconds;
  Counter& rows_written;
  Counter& appends_refused;  // Too many were waiting.
  Counter& unknown_outcomes;
  Counter& fences;  // Leases renewed to fence a write of unknown outcome.
  Counter& lease_requests;
  Counter& lease_failures;
  Counter& condition_failures;  // Another owner took the queue.
  Counter& reads;
  Counter& read_failures;
  Counter& read_throttles;
  Counter& buffer_throttles;  // The reader stopped because enough is loaded.
  Counter& rewrites;
  Counter& rewrite_failures;
  Counter& dropped_expired_at_read;
  Counter& dropped_expired_in_memory;
  Counter& gc_runs;
  Counter& gc_failures;
  Counter& rows_collected;
  // A count was not 0 although everything was read and finished.
  Counter& count_corrections;
};

}  // namespace millrace::backlog
