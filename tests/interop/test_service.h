#pragma once

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/service.h"
#include "tests/interop/orca_reports.h"

namespace millrace::interop {

// grpc.testing.TestService, what other people's interoperability clients call.
//
// Thread: any. Bounds: a response of 64 MiB at most; more is INVALID_ARGUMENT.
class TestService {
 public:
  // The loop carries timers; both outlive this, and this outlives the server.
  TestService(exec::EventLoop& loop, OrcaReports& reports) : loop_(loop), reports_(reports) {}

  void AddTo(rpc::ServiceTable* table);

 private:
  exec::EventLoop& loop_;
  OrcaReports& reports_;
};

}  // namespace millrace::interop
