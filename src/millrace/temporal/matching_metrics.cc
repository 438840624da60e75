#include "millrace/temporal/matching_metrics.h"

namespace millrace::temporal {
namespace {

Counter& Adds(Metrics& metrics, const char* result) {
  return metrics.GetCounter("millrace_temporal_adds_total",
                            "Tasks that were to be added, by what became of them.",
                            {{"result", result}});
}

Counter& Polls(Metrics& metrics, const char* result) {
  return metrics.GetCounter("millrace_temporal_polls_total", "Polls for tasks, by how they ended.",
                            {{"result", result}});
}

Counter& Drops(Metrics& metrics, DropReason reason) {
  return metrics.GetCounter("millrace_temporal_dropped_tasks_total",
                            "Tasks that history would not start any more, by its reason.",
                            {{"reason", std::string(DropReasonName(reason))}});
}

}  // namespace

MatchingMetrics::MatchingMetrics(Metrics& metrics)
    : adds_matched(Adds(metrics, "matched")),
      adds_spooled(Adds(metrics, "spooled")),
      adds_failed(Adds(metrics, "failed")),
      polls_answered(Polls(metrics, "task")),
      polls_empty(Polls(metrics, "empty")),
      polls_failed(Polls(metrics, "failed")),
      starts(metrics.GetCounter("millrace_temporal_starts_total",
                                "Tasks that history was asked to start.")),
      starts_failed(metrics.GetCounter("millrace_temporal_starts_failed_total",
                                       "Starts that failed so that the task was kept for later.")),
      dropped_not_found(Drops(metrics, DropReason::kNotFound)),
      dropped_invalid(Drops(metrics, DropReason::kInvalid)),
      dropped_internal_error(Drops(metrics, DropReason::kInternalError)),
      dropped_data_loss(Drops(metrics, DropReason::kDataLoss)),
      sticky_refusals(metrics.GetCounter("millrace_temporal_sticky_refusals_total",
                                         "Tasks refused since no worker polls the sticky queue.")),
      rejected(metrics.GetCounter("millrace_temporal_requests_rejected_total",
                                  "Requests refused as malformed or not served.")) {}

Counter& MatchingMetrics::Dropped(DropReason reason) {
  switch (reason) {
    case DropReason::kNotFound:
      return dropped_not_found;
    case DropReason::kInternalError:
      return dropped_internal_error;
    case DropReason::kDataLoss:
      return dropped_data_loss;
    case DropReason::kInvalid:
    case DropReason::kNone:
      break;
  }
  return dropped_invalid;
}

}  // namespace millrace::temporal
