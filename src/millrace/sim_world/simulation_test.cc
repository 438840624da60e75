// A fixed set of seeds in every profile, and some that nobody ran before. More seeds: millrace_sim
// run.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "millrace/sim_world/run_result.h"

namespace millrace::sim {
namespace {

struct Case {
  Profile profile;
  const char* name;
  std::uint64_t seeds;
};

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeedsDivisor = 10;  // Each costs several times as much.
#else
constexpr std::uint64_t kSeedsDivisor = 1;
#endif

class SimulationTest : public testing::TestWithParam<Case> {
 protected:
  // Returns the steps.
  static std::uint64_t RunSeeds(std::uint64_t first, std::uint64_t count, Coverage& coverage) {
    std::uint64_t steps = 0;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const RunResult result =
          RunSimulation({.seed = seed, .profile = GetParam().profile, .trace = {}}, coverage);
      EXPECT_EQ(result.violation, "") << "repeat: millrace_sim run --profile " << GetParam().name
                                      << " --first " << seed << " --seeds 1 --trace";
      if (HasFailure()) break;
      steps += result.steps;
    }
    return steps;
  }
};

TEST_P(SimulationTest, EveryRuleHolds) {
  Coverage coverage;
  const std::uint64_t seeds = GetParam().seeds / kSeedsDivisor;
  const std::uint64_t steps = RunSeeds(1, seeds, coverage);
  if (HasFailure()) return;
  // A world in which nothing happens would hold every rule as well.
  EXPECT_GT(steps, seeds * 500);
  EXPECT_GT(coverage.times("act crash"), 0u);
  EXPECT_GT(coverage.times("act power loss"), 0u);
  EXPECT_GT(coverage.times("fault applied_late"), 0u);
  EXPECT_GT(coverage.times("crash with store calls in flight"), 0u);
}

// Other ones each time: every run of the tests adds to what is proven. The line printed says which,
// and MILLRACE_FRESH_SEED=N runs the same again.
TEST_P(SimulationTest, FreshSeedsToo) {
  const char* given = std::getenv("MILLRACE_FRESH_SEED");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::uint64_t first =
      given != nullptr ? std::strtoull(given, nullptr, 10)
                       : static_cast<std::uint64_t>(
                             std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  const std::uint64_t seeds = GetParam().seeds / 3 / kSeedsDivisor;
  std::printf("fresh seeds: millrace_sim run --profile %s --first %llu --seeds %llu\n",
              GetParam().name, static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(seeds));
  Coverage coverage;
  (void)RunSeeds(first, seeds, coverage);
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
                                         Case{Profile::kQueueOwners, "queue-owners", 300},
                                         Case{Profile::kMatching, "matching", 300},
                                         Case{Profile::kMatchingOwners, "matching-owners", 300}),
                         [](const testing::TestParamInfo<Case>& param) {
                           std::string name = param.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace millrace::sim
