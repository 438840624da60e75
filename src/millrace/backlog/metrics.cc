#include "millrace/backlog/metrics.h"

namespace millrace::backlog {

BacklogMetrics BacklogMetrics::Create(Metrics& metrics) {
  const auto dropped = [&metrics](const char* reason) -> Counter& {
    return metrics.GetCounter("millrace_backlog_dropped_tasks_total",
                              "Tasks dropped undelivered, by reason.", {{"reason", reason}});
  };
  return BacklogMetrics{
      .writes = metrics.GetCounter("millrace_backlog_writes_total", "Conditional writes applied."),
      .write_failures =
          metrics.GetCounter("millrace_backlog_write_failures_total",
                             "Conditional writes that failed or whose outcome was unknown."),
      .write_throttles = metrics.GetCounter("millrace_backlog_write_throttles_total",
                                            "Conditional writes refused by a limit of the store."),
      .write_seconds = metrics.GetHistogram(
          "millrace_backlog_write_seconds", "Time of a conditional write, in seconds.",
          {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}),
      .rows_written =
          metrics.GetCounter("millrace_backlog_rows_written_total", "Task rows written."),
      .appends_refused = metrics.GetCounter("millrace_backlog_appends_refused_total",
                                            "Appends refused because too many were waiting."),
      .unknown_outcomes = metrics.GetCounter("millrace_backlog_unknown_outcomes_total",
                                             "Writes whose outcome was unknown."),
      .fences = metrics.GetCounter("millrace_backlog_fences_total",
                                   "Leases renewed to fence a write whose outcome was unknown."),
      .lease_requests = metrics.GetCounter("millrace_backlog_lease_requests_total",
                                           "Attempts to write a range id."),
      .lease_failures = metrics.GetCounter("millrace_backlog_lease_failures_total",
                                           "Attempts to write a range id that failed."),
      .condition_failures =
          metrics.GetCounter("millrace_backlog_condition_failures_total",
                             "Queues lost because another owner took the range id."),
      .reads = metrics.GetCounter("millrace_backlog_reads_total", "Reads of task ranges."),
      .read_failures = metrics.GetCounter("millrace_backlog_read_failures_total",
                                          "Reads of task ranges that failed."),
      .read_throttles = metrics.GetCounter("millrace_backlog_read_throttles_total",
                                           "Reads refused by a limit of the store."),
      .buffer_throttles =
          metrics.GetCounter("millrace_backlog_buffer_throttles_total",
                             "Times a reader stopped because enough tasks were loaded."),
      .rewrites = metrics.GetCounter("millrace_backlog_rewrites_total",
                                     "Tasks written again because they could not be started."),
      .rewrite_failures =
          metrics.GetCounter("millrace_backlog_rewrite_failures_total",
                             "Tasks that could neither be started nor written again."),
      .dropped_expired_at_read = dropped("expired_at_read"),
      .dropped_expired_in_memory = dropped("expired_in_memory"),
      .gc_runs =
          metrics.GetCounter("millrace_backlog_gc_runs_total", "Deletions of finished rows."),
      .gc_failures = metrics.GetCounter("millrace_backlog_gc_failures_total",
                                        "Deletions of finished rows that failed."),
      .rows_collected = metrics.GetCounter("millrace_backlog_rows_collected_total",
                                           "Finished rows deleted, where the store can tell."),
      .count_corrections =
          metrics.GetCounter("millrace_backlog_count_corrections_total",
                             "Counts set to 0 because the backlog turned out to be empty."),
  };
}

}  // namespace millrace::backlog
