// A fixed set of seeds in every profile. More seeds: millrace_sim run.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "millrace/sim_world/run_result.h"

namespace millrace::sim {
namespace {

struct Case {
  Profile profile;
  const char* name;
  std::uint64_t seeds;
};

class SimulationTest : public testing::TestWithParam<Case> {};

TEST_P(SimulationTest, EveryRuleHolds) {
  Coverage coverage;
  std::uint64_t steps = 0;
  for (std::uint64_t seed = 1; seed <= GetParam().seeds; ++seed) {
    const RunResult result =
        RunSimulation({.seed = seed, .profile = GetParam().profile, .trace = {}}, coverage);
    ASSERT_EQ(result.violation, "") << "repeat: millrace_sim run --profile " << GetParam().name
                                    << " --first " << seed << " --seeds 1 --trace";
    steps += result.steps;
  }
  // A world in which nothing happens would hold every rule as well.
  EXPECT_GT(steps, GetParam().seeds * 500);
  EXPECT_GT(coverage.times("act crash"), 0u);
  EXPECT_GT(coverage.times("act power loss"), 0u);
  EXPECT_GT(coverage.times("fault applied_late"), 0u);
  EXPECT_GT(coverage.times("crash with store calls in flight"), 0u);
}

TEST_P(SimulationTest, OneSeedIsOneStory) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Coverage coverage;
    const RunOptions options{.seed = seed, .profile = GetParam().profile, .trace = {}};
    const RunResult first = RunSimulation(options, coverage);
    const RunResult again = RunSimulation(options, coverage);
    EXPECT_EQ(first.hash, again.hash) << GetParam().name << " seed " << seed;
    EXPECT_EQ(first.steps, again.steps);
    RunOptions other = options;
    other.seed = seed + 1'000;
    EXPECT_NE(RunSimulation(other, coverage).hash, first.hash);
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, SimulationTest,
                         testing::Values(Case{Profile::kBacklog, "backlog", 400},
                                         Case{Profile::kBacklogGc, "backlog-gc", 400},
                                         Case{Profile::kQueue, "queue", 300},
                                         Case{Profile::kQueueOwners, "queue-owners", 300}),
                         [](const testing::TestParamInfo<Case>& param) {
                           std::string name = param.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace millrace::sim
