#pragma once

#include "millrace/base/metrics.h"

namespace millrace::queue {

// Counters of the queue service, one emission point each. Thread: any.
struct ServiceMetrics {
  explicit ServiceMetrics(Metrics& metrics)
      : enqueued(
            metrics.GetCounter("millrace_tasks_enqueued_total", "Tasks accepted and durable.")),
        leased(metrics.GetCounter("millrace_tasks_leased_total",
                                  "Tasks handed to workers, each attempt counted.")),
        completed(metrics.GetCounter("millrace_tasks_completed_total", "Tasks ended as done.")),
        failed(metrics.GetCounter("millrace_tasks_failed_total",
                                  "Attempts that workers ended as failed.")),
        released(metrics.GetCounter("millrace_tasks_released_total", "Tasks given back unworked.")),
        lease_lost(metrics.GetCounter("millrace_lease_lost_total",
                                      "Calls with a token that was not the task's current lease.")),
        empty_polls(metrics.GetCounter("millrace_empty_polls_total",
                                       "Lease calls that ended without a task.")),
        rejected(metrics.GetCounter("millrace_requests_rejected_total",
                                    "Requests refused as malformed.")) {}

  Counter& enqueued;
  Counter& leased;
  Counter& completed;
  Counter& failed;
  Counter& released;
  Counter& lease_lost;
  Counter& empty_polls;
  Counter& rejected;
};

}  // namespace millrace::queue
