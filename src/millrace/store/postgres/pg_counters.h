#pragma once

#include "millrace/base/metrics.h"

namespace millrace::store {

// What is asked of the server, as counters. Thread: any.
struct PgCounters {
  explicit PgCounters(Metrics& metrics)
      : statements(metrics.GetCounter("millrace_postgres_statements_total",
                                      "Statements sent to PostgreSQL.")),
        round_trips(metrics.GetCounter("millrace_postgres_round_trips_total",
                                       "Times that something was sent and its answer awaited.")),
        commits(metrics.GetCounter("millrace_postgres_commits_total",
                                   "Transactions committed that changed something.")),
        connects(metrics.GetCounter("millrace_postgres_connects_total",
                                    "Connections made to PostgreSQL.")),
        connects_failed(metrics.GetCounter("millrace_postgres_connects_failed_total",
                                           "Attempts to connect to PostgreSQL that failed.")),
        retries(metrics.GetCounter(
            "millrace_postgres_retries_total",
            "Groups of writes sent again after a deadlock, a locked row or a refused row.")) {}

  Counter& statements;
  Counter& round_trips;
  Counter& commits;
  Counter& connects;
  Counter& connects_failed;
  Counter& retries;
};

}  // namespace millrace::store
