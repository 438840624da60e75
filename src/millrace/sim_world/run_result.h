#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/swarm.h"

namespace millrace::sim {

struct RunResult {
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;
  std::int64_t simulated_ms = 0;
  std::string violation;  // Empty = every rule held.
};

struct RunOptions {
  std::uint64_t seed = 0;
  Profile profile = Profile::kBacklog;
  // Gets one line per event; empty = no trace.
  std::function<void(const std::string&)> trace;
};

// One simulation from its seed: the safety phase under faults, the liveness phase without them, the
// end. The coverage marks it reached are added to `coverage`.
RunResult RunSimulation(const RunOptions& options, Coverage& coverage);

// Declares the marks that runs of all profiles together should reach.
void DeclareMarks(Coverage& coverage);

}  // namespace millrace::sim
