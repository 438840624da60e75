#include "millrace/store/postgres/pg_node_table.h"

#include <gtest/gtest.h>

#include <string>

#include "millrace/store/postgres/test_server.h"

namespace millrace::store {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class PgNodeTableTest : public testing::Test {
 protected:
  PgNodeTable Table() {
    PostgresConfig config;
    config.url = url_;
    return {config, seconds(30)};
  }
  static NodeBeat Beat(const std::string& id, std::uint64_t incarnation) {
    return {.id = id, .incarnation = incarnation, .address = "host:" + id, .expiry = hours(1)};
  }

  const std::string url_ = PgTestServer::Shared().NewDatabase();
};

TEST_F(PgNodeTableTest, EverybodySeesWhoIsAlive) {
  PgNodeTable one = Table();
  PgNodeTable two = Table();
  ASSERT_EQ(one.Beat(Beat("b'\xC3\xA9", ~std::uint64_t{0}), true)->rows.size(), 1u);
  NodeBeat beat = Beat("a", 7);
  beat.applied = std::uint64_t{1} << 63;
  beat.queues = 5;
  beat.state = NodeState::kLeaving;
  const Result<NodeRows> answer = two.Beat(beat, true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->rows.size(), 2u);
  const NodeRow& mine = answer->rows[0];
  EXPECT_EQ(mine.id, "a");
  EXPECT_EQ(mine.incarnation, 7u);
  EXPECT_EQ(mine.address, "host:a");
  EXPECT_EQ(mine.state, NodeState::kLeaving);
  EXPECT_EQ(mine.applied, std::uint64_t{1} << 63);
  EXPECT_EQ(mine.queues, 5);
  EXPECT_GT(mine.started.ns, 0);
  EXPECT_GT(mine.expires_in, seconds(1));
  EXPECT_GE(answer->now, mine.started);
  EXPECT_EQ(answer->rows[1].id, "b'\xC3\xA9");
  EXPECT_EQ(answer->rows[1].incarnation, ~std::uint64_t{0});
  EXPECT_EQ(answer->rows[1].state, NodeState::kServing);
}

TEST_F(PgNodeTableTest, WhoSaysNothingForTooLongIsGone) {
  PgNodeTable table = Table();
  NodeBeat gone = Beat("gone", 1);
  gone.expiry = Duration::zero();
  const Result<NodeRows> alone = table.Beat(gone, true);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->rows.empty());
  EXPECT_GT(alone->now.ns, 0);
  EXPECT_EQ(table.Beat(Beat("here", 2), true)->rows.size(), 1u);
}

TEST_F(PgNodeTableTest, ANewProcessReplacesTheOldOneUnderItsId) {
  PgNodeTable old_one = Table();
  PgNodeTable new_one = Table();
  const WallTime started = old_one.Beat(Beat("n", 1), true)->rows[0].started;
  EXPECT_EQ(old_one.Beat(Beat("n", 1), false)->rows[0].started, started);
  const Result<NodeRows> replaced = new_one.Beat(Beat("n", 2), true);
  ASSERT_EQ(replaced->rows.size(), 1u);
  EXPECT_GT(replaced->rows[0].started, started);
  // The old one learns of it, changes nothing and takes nothing away.
  EXPECT_EQ(old_one.Beat(Beat("n", 1), false)->rows[0].incarnation, 2u);
  EXPECT_TRUE(old_one.Remove("n", 1).ok());
  EXPECT_EQ(new_one.Beat(Beat("n", 2), false)->rows.size(), 1u);
  EXPECT_TRUE(new_one.Remove("n", 2).ok());
  EXPECT_EQ(new_one.Beat(Beat("other", 3), true)->rows.size(), 1u);
}

TEST_F(PgNodeTableTest, WhoeverListensAtAnAddressIsTheOnlyOneThere) {
  PgNodeTable table = Table();
  ASSERT_TRUE(table.Beat(Beat("elsewhere", 1), true).ok());
  NodeBeat killed = Beat("killed", 2);
  killed.address = "same:1";
  ASSERT_EQ(table.Beat(killed, true)->rows.size(), 2u);
  NodeBeat started = Beat("started", 3);
  started.address = "same:1";
  const Result<NodeRows> rows = table.Beat(started, true);
  ASSERT_EQ(rows->rows.size(), 2u);
  EXPECT_EQ(rows->rows[0].id, "elsewhere");
  EXPECT_EQ(rows->rows[1].id, "started");
}

TEST_F(PgNodeTableTest, ALostConnectionIsMadeAgain) {
  PgNodeTable table = Table();
  ASSERT_TRUE(table.Beat(Beat("n", 1), true).ok());
  PgTestServer::Shared().Sql(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> "
      "pg_backend_pid() AND backend_type = 'client backend'");
  // The end may be noticed before or after the statement is sent.
  Result<NodeRows> rows = table.Beat(Beat("n", 1), false);
  if (!rows.ok()) rows = table.Beat(Beat("n", 1), false);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows.size(), 1u);
}

}  // namespace
}  // namespace millrace::store
