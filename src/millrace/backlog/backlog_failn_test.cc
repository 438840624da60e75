// Every scenario with the n-th store call failing, for every kind of fault, n = 0, 1, 2, ... until
// it is not reached.

#include <gtest/gtest.h>

#include "millrace/backlog/testing/scenarios.h"

namespace millrace::backlog {
namespace {

using testing::Driver;
using testing::ExpireRewriteAndPutBack;
using testing::FillAndDrain;
using testing::LiveLong;
using testing::LoseTheQueue;
using testing::Tiny;
using testing::World;

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
