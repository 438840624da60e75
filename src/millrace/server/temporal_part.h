#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/rpc/service.h"
#include "millrace/server/application.h"
#include "millrace/temporal/history_client.h"
#include "millrace/temporal/matching_service.h"

namespace millrace::server {

// How to reach the history service that the settings name. kInvalidArgument: the setting and what
// is wrong with it.
Result<temporal::HistoryClientConfig> HistoryConfigFrom(const TemporalSettings& settings);

// The matching service with its way to history, as part of the server's application.
//
// Thread: as Application's methods; destroyed on a thread that is not a loop's, after Stop is done.
class TemporalPart {
 public:
  // The settings were found consistent.
  explicit TemporalPart(const ApplicationEnvironment& environment);

  void Register(rpc::ServiceTable& table) { service_.Register(table); }
  // Polls end, queues are given up. `done` runs once, on any thread. Once.
  void Stop(Closure done) { service_.Stop(std::move(done)); }

 private:
  temporal::HistoryClient history_;
  temporal::MatchingService service_;
  PrometheusMetrics::Registration loaded_queues_;
};

}  // namespace millrace::server
