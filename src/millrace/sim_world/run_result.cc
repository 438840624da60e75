#include "millrace/sim_world/run_result.h"

#include <memory>
#include <vector>

#include "millrace/sim_world/backlog_world.h"
#include "millrace/sim_world/matching_world.h"
#include "millrace/sim_world/queue_world.h"

namespace millrace::sim {
namespace {

std::unique_ptr<World> MakeWorld(const RunOptions& options, Coverage& coverage) {
  if (options.profile == Profile::kBacklog || options.profile == Profile::kBacklogGc) {
    return std::make_unique<BacklogWorld>(options, coverage);
  }
  if (options.profile == Profile::kMatching || options.profile == Profile::kMatchingOwners) {
    return std::make_unique<MatchingWorld>(options, coverage);
  }
  return std::make_unique<QueueWorld>(options, coverage);
}

}  // namespace

RunResult RunSimulation(const RunOptions& options, Coverage& coverage) {
  std::unique_ptr<World> world = MakeWorld(options, coverage);
  RunResult result = world->Run();
  if (!result.violation.empty()) {
    // It stopped in the middle of things, where its objects may not be destroyed. Kept reachable:
    // not a leak.
    static std::vector<World*>& broken = *new std::vector<World*>();
    broken.push_back(world.release());
  }
  return result;
}

}  // namespace millrace::sim
