#pragma once

#include "millrace/base/time.h"
#include "millrace/server/prometheus_metrics.h"

namespace millrace::server {

// The process itself: process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds,
// process_max_fds, process_threads, process_start_time_seconds, and millrace_build_info. Reads
// /proc at each scrape; what /proc does not tell is left out.
Collector ProcessCollector(WallTime started);

}  // namespace millrace::server
