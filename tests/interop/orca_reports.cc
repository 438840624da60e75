#include "tests/interop/orca_reports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "xds/orca.pb.h"

namespace millrace::interop {

std::string OrcaReportBytes(const grpc::testing::TestOrcaReport& asked, bool with_request_cost) {
  OrcaLoadReport report;
  report.set_cpu_utilization(asked.cpu_utilization());
  report.set_mem_utilization(asked.memory_utilization());
  if (with_request_cost) *report.mutable_request_cost() = asked.request_cost();
  *report.mutable_utilization() = asked.utilization();
  return report.SerializeAsString();
}

void OrcaReports::AddTo(rpc::ServiceTable* table) {
  table->streaming["/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"] =
      [this](std::unique_ptr<rpc::ServerStream> stream) {
        rpc::ServerStream& reading = *stream;
        reading.Read([this,
                      stream = std::move(stream)](std::optional<std::string> message) mutable {
          OrcaLoadReportRequest request;
          if (!message || !request.ParseFromString(*message)) {
            stream->Finish({rpc::Code::kInvalidArgument, "not a report request", {}});
            return;
          }
          const Duration asked = std::chrono::seconds(request.report_interval().seconds()) +
                                 std::chrono::nanoseconds(request.report_interval().nanos());
          ReportEvery(std::move(stream), std::max<Duration>(asked, std::chrono::milliseconds(100)));
        });
      };
}

void OrcaReports::ReportEvery(std::unique_ptr<rpc::ServerStream> stream, Duration interval) {
  std::string report;
  {
    MutexLock lock(mutex_);
    report = report_;
  }
  rpc::ServerStream& writing = *stream;
  writing.Write(std::move(report), [this, interval, stream = std::move(stream)](bool more) mutable {
    if (!more) return;
    loop_.PostAt(loop_.clock().Now() + interval,
                 [this, interval, stream = std::move(stream)]() mutable {
                   ReportEvery(std::move(stream), interval);
                 });
  });
}

void OrcaReports::Acquire(Closure owns) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(owned_, true)) {
      waiting_.push_back(std::move(owns));
      return;
    }
  }
  loop_.Post(std::move(owns));
}

void OrcaReports::Release() {
  MutexLock lock(mutex_);
  if (waiting_.empty()) {
    owned_ = false;
    return;
  }
  loop_.Post(std::move(waiting_.front()));
  waiting_.pop_front();
}

void OrcaReports::Set(const grpc::testing::TestOrcaReport& asked) {
  MutexLock lock(mutex_);
  report_ = OrcaReportBytes(asked, false);
}

}  // namespace millrace::interop
