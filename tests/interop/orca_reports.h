#pragma once

#include <deque>
#include <memory>
#include <string>

#include "grpc/testing/test.pb.h"
#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/service.h"

namespace millrace::interop {

// Metadata name of a report that goes with one call's status.
inline constexpr const char* kOrcaTrailer = "endpoint-load-metrics-bin";

// The serialized report that the request asks for.
std::string OrcaReportBytes(const grpc::testing::TestOrcaReport& asked, bool with_request_cost);

// The server's own load report, which clients set through their test calls and read from
// xds.service.orca.v3.OpenRcaService. One call at a time may set it.
//
// Thread: any.
class OrcaReports {
 public:
  // The loop carries the timers of the report streams; it outlives this.
  explicit OrcaReports(exec::EventLoop& loop) : loop_(loop) {}

  void AddTo(rpc::ServiceTable* table);

  // Runs `owns` once this call alone may set reports: now, or when those before it have released.
  void Acquire(Closure owns) MR_EXCLUDES(mutex_);
  void Release() MR_EXCLUDES(mutex_);
  void Set(const grpc::testing::TestOrcaReport& asked) MR_EXCLUDES(mutex_);

 private:
  void ReportEvery(std::unique_ptr<rpc::ServerStream> stream, Duration interval)
      MR_EXCLUDES(mutex_);

  exec::EventLoop& loop_;
  Mutex mutex_;
  bool owned_ MR_GUARDED_BY(mutex_) = false;
  std::deque<Closure> waiting_ MR_GUARDED_BY(mutex_);
  std::string report_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::interop
