#pragma once

#include <memory>
#include <vector>

#include "millrace/exec/strand.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_clock.h"
#include "millrace/sim/sim_executor.h"
#include "millrace/sim/sim_store.h"

namespace millrace::sim {

// One life of one simulated process: its clock, event loops and way to the store. A restarted host
// is a new SimHost.
//
// After Crash the process is cut off: its store calls have no effect and whoever owns it must
// ignore what its objects say. They are then stopped and destroyed in order, which stands in for
// the operating system's clean-up.
struct SimHost {
  SimHost(SimScheduler& scheduler, SimExecutor& network, store::TaskStore& durable, FaultPlan& plan,
          int host_number, int life_number, int loop_count, Duration timer_delay_max,
          Duration wall_offset)
      : number(host_number),
        life(life_number),
        clock(scheduler,
              Duration(static_cast<std::int64_t>(scheduler.random().Below(1'000'000'000'000)))),
        store(network, durable, plan) {
    clock.JumpWall(wall_offset);
    for (int i = 0; i < loop_count; ++i) {
      loops.push_back(std::make_unique<SimExecutor>(
          scheduler, clock, SimExecutorOptions{.timer_delay_max = timer_delay_max}));
    }
  }

  exec::Executor& loop(std::size_t i) { return *loops[i % loops.size()]; }

  const int number;
  const int life;
  SimClock clock;
  std::vector<std::unique_ptr<SimExecutor>> loops;
  SimStore store;
  bool crashed = false;
};

// Posts to a strand of a host from outside of it, by way of the strand's own event loop: a strand
// runs where it is posted from, and the driver's loop is not part of any host.
inline void PostToHost(exec::Strand& strand, Closure closure) {
  strand.home().Post(
      [&strand, run = std::move(closure)]() mutable { strand.Post(std::move(run)); });
}

}  // namespace millrace::sim
