// Random work under random faults, from many seeds; then a phase without faults in which everything
// must come right.

#include <gtest/gtest.h>

#include <cstdlib>

#include "millrace/backlog/testing/conservation.h"

namespace millrace::backlog {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Driver;
using testing::World;

BacklogConfig RandomConfig(Random& random) {
  BacklogConfig config;
  config.range_size = 3 + static_cast<std::int64_t>(random.Below(20));
  config.write_batch_max = 1 + random.Below(4);
  config.outstanding_appends_max = 1 + random.Below(8);
  config.page_size = 1 + random.Below(5);
  config.gc_batch = 1 + random.Below(4);
  config.empty_ranges_per_turn_max = 1 + static_cast<int>(random.Below(3));
  config.update_interval = seconds(1 + random.Below(20));
  config.delete_on_finish = random.Chance(1, 2);
  return config;
}

void RunSeed(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  World world;
  sim::FaultRates rates;
  const int level = static_cast<int>(random.Below(60));
  rates.unavailable = rates.resource_exhausted = level;
  rates.reply_lost = rates.not_applied = rates.applied_late = level;
  rates.stall = level / 4;
  sim::RandomFaults plan(random, rates);
  Driver driver(world, RandomConfig(random), plan);
  int names = 0;
  for (int step = 0; step < 60 && !::testing::Test::HasFailure(); ++step) {
    switch (random.Below(12)) {
      case 0:
      case 1:
      case 2: {
        std::vector<std::string> batch;
        for (std::uint64_t i = random.Below(6); i > 0; --i)
          batch.push_back("t" + std::to_string(names++));
        driver.Spool(
            batch, random.Chance(1, 5) ? Duration(seconds(1 + random.Below(5))) : Duration::zero());
        break;
      }
      case 3:
      case 4:
        driver.Take(1 + random.Below(5));
        break;
      case 5:
      case 6:
        driver.FinishSome(1 + random.Below(4));
        break;
      case 7:
        driver.RewriteOne();
        break;
      case 8:
        driver.PutBackOne();
        break;
      case 9:
        if (random.Chance(1, 3)) driver.Steal();
        break;
      case 10:
        if (random.Chance(1, 3)) driver.Reload();
        if (random.Chance(1, 3)) driver.BuryOld();
        break;
      default:
        driver.Advance(milliseconds(random.Below(9'000)));
    }
    driver.Advance(milliseconds(random.Below(20)));
  }
  sim::FaultRates none;
  none.latency_max = milliseconds(1);
  plan.SetRates(none);
  driver.BuryOld();
  driver.Advance(seconds(20));  // Late writes land, or are refused.
  driver.Drain();
  driver.Check();
}

TEST(BacklogRandom, EverythingComesRightOnceFaultsStop) {
  std::uint64_t first = 1;
  std::uint64_t count = 1'000;
  if (const char* seed = std::getenv("MILLRACE_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  if (const char* seeds = std::getenv("MILLRACE_SEEDS")) count = std::strtoull(seeds, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    RunSeed(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace millrace::backlog
