#pragma once

#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_scheduler.h"

namespace millrace::sim {

// Puts every store call and its fate into the trace. Thread: one at a time.
class TracedFaults final : public FaultPlan {
 public:
  TracedFaults(FaultPlan& plan, SimScheduler& scheduler) : plan_(plan), scheduler_(scheduler) {}

  Fault Next(StoreOp op) override {
    const Fault fault = plan_.Next(op);
    scheduler_.Trace(StoreOpName(op), static_cast<std::int64_t>(fault.kind), fault.before.count(),
                     fault.after.count());
    return fault;
  }

 private:
  FaultPlan& plan_;
  SimScheduler& scheduler_;
};

}  // namespace millrace::sim
