#pragma once

#include "millrace/base/metrics.h"
#include "millrace/temporal/start_outcome.h"

namespace millrace::temporal {

// Counters of the matching service, one emission point each. Thread: any.
struct MatchingMetrics {
  explicit MatchingMetrics(Metrics& metrics);

  Counter& Dropped(DropReason reason);

  Counter& adds_matched;
  Counter& adds_spooled;
  Counter& adds_failed;
  Counter& polls_answered;
  Counter& polls_empty;
  Counter& polls_failed;
  Counter& starts;
  Counter& starts_failed;
  Counter& dropped_not_found;
  Counter& dropped_invalid;
  Counter& dropped_internal_error;
  Counter& dropped_data_loss;
  Counter& sticky_refusals;
  Counter& rejected;
};

}  // namespace millrace::temporal
