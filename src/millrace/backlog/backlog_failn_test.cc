// Every scenario with the n-th store call failing, for every kind of fault, n = 0, 1, 2, ... until
// it is not reached.

#include <gtest/gtest.h>

#include "millrace/backlog/testing/conservation.h"

namespace millrace::backlog {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Driver;
using testing::World;

// Absurdly small limits, so that every path is taken by a few tasks.
BacklogConfig Tiny(bool delete_on_finish) {
  BacklogConfig config;
  config.range_size = 7;
  config.write_batch_max = 3;
  config.page_size = 4;
  config.gc_batch = 2;
  config.delete_on_finish = delete_on_finish;
  return config;
}

// Fill, take half, load again, drain.
void FillAndDrain(Driver& driver) {
  driver.Spool({"a", "b", "c", "d", "e"});
  driver.Advance(milliseconds(100));
  driver.Spool({"f"});
  driver.Take(3);
  driver.FinishSome(2);
  driver.Advance(milliseconds(100));
  driver.Spool({"g", "h", "i", "j"});
  driver.Advance(seconds(3));
  driver.Reload();
  driver.Take(2);
  driver.FinishSome(2);
  driver.Drain();
}

// Tasks that expire, are written again, and are given back.
void ExpireRewriteAndPutBack(Driver& driver) {
  driver.Spool({"x1", "x2", "x3", "x4", "x5"}, seconds(2));
  driver.Spool({"a", "b", "c"});
  driver.Advance(milliseconds(100));
  driver.Take(2);
  driver.RewriteOne();
  driver.Advance(milliseconds(200));
  driver.PutBackOne();
  driver.Spool({"d", "e"});
  driver.Advance(seconds(3));
  driver.Take(3);
  driver.RewriteOne();
  driver.Drain();
}

// A second owner takes the queue in the middle of writes of the first.
void LoseTheQueue(Driver& driver) {
  driver.Spool({"a", "b", "c", "d"});
  driver.Take(2);
  driver.FinishSome(1);
  driver.Spool({"e", "f"});
  driver.Steal();
  driver.Spool({"g", "h"});
  driver.Advance(seconds(5));
  driver.BuryOld();
  driver.Drain();
}

// An update interval passes with changes, and one without.
void LiveLong(Driver& driver) {
  driver.Spool({"a", "b"});
  driver.Take(1);
  driver.FinishSome(1);
  driver.Advance(seconds(70));
  driver.Advance(seconds(130));
  driver.Spool({"c"});
  driver.Drain();
  driver.Advance(seconds(130));
}

struct Scenario {
  const char* name;
  void (*run)(Driver&);
};
constexpr Scenario kScenarios[] = {{"FillAndDrain", FillAndDrain},
                                   {"ExpireRewriteAndPutBack", ExpireRewriteAndPutBack},
                                   {"LoseTheQueue", LoseTheQueue},
                                   {"LiveLong", LiveLong}};
constexpr sim::FaultKind kKinds[] = {
    sim::FaultKind::kUnavailable, sim::FaultKind::kResourceExhausted, sim::FaultKind::kReplyLost,
    sim::FaultKind::kNotApplied,  sim::FaultKind::kAppliedLate,       sim::FaultKind::kStall};

class FailN : public ::testing::TestWithParam<std::tuple<bool, Scenario, sim::FaultKind>> {};
INSTANTIATE_TEST_SUITE_P(All, FailN,
                         ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(kScenarios),
                                            ::testing::ValuesIn(kKinds)),
                         [](const auto& p) {
                           std::string name = std::get<0>(p.param) ? "Deleting" : "Collecting";
                           name += std::get<1>(p.param).name;
                           for (const char c : sim::FaultKindName(std::get<2>(p.param))) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

TEST_P(FailN, LosesNothingAndBringsNothingBack) {
  const auto& [delete_on_finish, scenario, kind] = GetParam();
  std::uint64_t n = 0;
  for (bool reached = true; reached; ++n) {
    SCOPED_TRACE("n = " + std::to_string(n));
    ASSERT_LT(n, 500u);
    World world;
    sim::NthFault plan(n, kind);
    Driver driver(world, Tiny(delete_on_finish), plan);
    scenario.run(driver);
    driver.Check();
    reached = plan.reached();
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 10u);
}

}  // namespace
}  // namespace millrace::backlog
