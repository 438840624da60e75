// The engine over a real PostgreSQL server: two owners, calls that fail, and replies that are
// really lost.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/testing/scenarios.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/test_proxy.h"
#include "millrace/store/postgres/test_server.h"

namespace millrace::backlog {
namespace {

using Harm = store::PgTestProxy::Harm;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Driver;
using testing::QueueOwner;
using testing::World;

std::unique_ptr<store::PostgresTaskStore> OpenStore(const std::string& url) {
  static NullLog log;
  store::PostgresConfig config;
  config.url = url;
  config.statement_timeout = milliseconds(500);
  config.reply_margin = milliseconds(200);
  auto opened =
      store::PostgresTaskStore::Open(config, store::StandaloneLayout(), NullMetrics(), log);
  MR_CHECK(opened.ok());
  return std::move(*opened);
}

// ---- The n-th call fails
// -------------------------------------------------------------------------

struct Case {
  const char* name;
  void (*run)(Driver&);
  sim::FaultKind kind;
  bool delete_on_finish;
};
constexpr Case kCases[] = {
    {"FillAndDrainReplyLost", testing::FillAndDrain, sim::FaultKind::kReplyLost, true},
    {"FillAndDrainAppliedLate", testing::FillAndDrain, sim::FaultKind::kAppliedLate, true},
    {"FillAndDrainCollecting", testing::FillAndDrain, sim::FaultKind::kAppliedLate, false},
    {"LoseTheQueueReplyLost", testing::LoseTheQueue, sim::FaultKind::kReplyLost, true},
    {"LoseTheQueueAppliedLate", testing::LoseTheQueue, sim::FaultKind::kAppliedLate, false},
};
// A real server is too slow for every n of every case.
constexpr std::uint64_t kStride = 2;

class PostgresFailN : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, PostgresFailN, ::testing::ValuesIn(kCases),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(PostgresFailN, LosesNothingAndBringsNothingBack) {
  const auto store = OpenStore(store::PgTestServer::Shared().NewDatabase());
  std::uint64_t n = 0;
  for (bool reached = true; reached; n += kStride) {
    SCOPED_TRACE("n = " + std::to_string(n));
    ASSERT_LT(n, 500u);
    World world(*store, "queue" + std::to_string(n));
    sim::NthFault plan(n, GetParam().kind);
    Driver driver(world, testing::Tiny(GetParam().delete_on_finish), plan);
    GetParam().run(driver);
    driver.Check();
    reached = plan.reached();
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 10u);
}

// ---- A reply is really lost
// ----------------------------------------------------------------------

class LostReply : public ::testing::TestWithParam<std::pair<Harm, bool>> {};
std::string HarmName(const ::testing::TestParamInfo<std::pair<Harm, bool>>& info) {
  constexpr const char* kTexts[] = {"None",       "CutBefore", "CutAfter",
                                    "HalfAnswer", "Silence",   "Hold"};
  return kTexts[static_cast<int>(info.param.first)];
}
INSTANTIATE_TEST_SUITE_P(All, LostReply,
                         ::testing::Values(std::pair(Harm::kCutBefore, false),
                                           std::pair(Harm::kCutAfter, true),
                                           std::pair(Harm::kHalfAnswer, true),
                                           std::pair(Harm::kSilence, true),
                                           std::pair(Harm::kHold, false)),
                         HarmName);

// The engine's fence decides whether the write happened, and says the same as the rows.
TEST_P(LostReply, TheFenceTellsWhatHappened) {
  const auto [harm, applied] = GetParam();
  store::PgTestServer& server = store::PgTestServer::Shared();
  const std::string url = server.NewDatabase();
  store::PgTestProxy proxy(server.socket());
  const auto store = OpenStore(server.Url(url.substr(url.rfind('=') + 1), proxy.folder()));
  World world(*store, "queue");
  std::vector<bool> decided;
  std::vector<std::string> delivered;
  {
    QueueOwner owner(world, testing::SmallConfig(true));
    owner.Start();
    ASSERT_TRUE(owner.SpoolOne("before").ok());
    proxy.Arm(harm);
    owner.Run([&](BacklogManager& manager) {
      WriteOp op;
      op.creates.push_back(owner.MakeTask("asked"));
      op.done = [&](const WriteOutcome& outcome) {
        EXPECT_EQ(outcome.status.code(), StatusCode::kUnknownOutcome) << outcome.status;
      };
      op.decided = [&](bool was_applied) { decided.push_back(was_applied); };
      manager.Submit(std::move(op));
    });
    for (int i = 0; i < 50 && decided.empty(); ++i) world.executor.AdvanceBy(seconds(1));
    EXPECT_EQ(decided, std::vector<bool>{applied});
    if (harm == Harm::kHold) proxy.Release();
    ASSERT_TRUE(owner.SpoolOne("after").ok());
    world.executor.AdvanceBy(seconds(5));
    for (const LoadedTask& task : owner.Take(10)) delivered.push_back(task.payload);
  }
  const std::vector<std::string> expected =
      applied ? std::vector<std::string>{"before", "asked", "after"}
              : std::vector<std::string>{"before", "after"};
  EXPECT_EQ(delivered, expected);
  std::vector<std::string> stored;
  for (const store::TaskRow& row : world.Rows()) stored.push_back(row.payload);
  EXPECT_EQ(stored, expected);
}

}  // namespace
}  // namespace millrace::backlog
