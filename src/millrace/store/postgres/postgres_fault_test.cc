// The server, the network or another session does harm: what is reported is what happened.

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "millrace/base/check.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/random.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/test_proxy.h"
#include "millrace/store/postgres/test_server.h"
#include "millrace/store/rocksdb/store_testing.h"

namespace millrace::store {
namespace {

using Harm = PgTestProxy::Harm;
using std::chrono::milliseconds;
using Ids = std::vector<std::int64_t>;

NullLog& Quiet() {
  static NullLog log;
  return log;
}

std::unique_ptr<PostgresTaskStore> OpenStore(const std::string& url, PostgresConfig config = {}) {
  config.url = url;
  config.reconnect_min = milliseconds(5);
  config.watch_interval = milliseconds(20);
  Result<std::unique_ptr<PostgresTaskStore>> opened =
      PostgresTaskStore::Open(config, StandaloneLayout(), NullMetrics(), Quiet());
  MR_CHECK(opened.ok());
  return std::move(*opened);
}

void AwaitHealth(TaskStore& store, bool healthy) {
  while (store.Health().ok() != healthy) std::this_thread::yield();
}

// A write as owners send it: the range ids are then compared by another statement.
QueueWrite OwnersCreate(const std::string& queue, std::int64_t id, std::int64_t range_id = 1) {
  QueueWrite write = TestCreate(queue, id, range_id);
  write.metadata = TestMetadata(range_id);
  return write;
}

// Another program's session in the database.
class Session {
 public:
  explicit Session(const std::string& url) : connection_(PQconnectdb(url.c_str()), PQfinish) {
    MR_CHECK(PQstatus(connection_.get()) == CONNECTION_OK);
  }
  std::string Sql(const std::string& sql) {
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
        PQexec(connection_.get(), sql.c_str()), PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    MR_CHECK(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK);
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
  }
  // Locks the row of queue `name`, whose id holds it in plain bytes.
  void Lock(const std::string& name) {
    Sql("BEGIN");
    Sql("SELECT 1 FROM task_queues_v2 WHERE position('" + name +
        "'::bytea IN task_queue_id) > 0 FOR UPDATE");
  }

 private:
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

// Waits until a session of a store waits for a lock.
void AwaitBlocked(Session& session) {
  while (session.Sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millrace' "
                     "AND wait_event_type = 'Lock'") == "0") {
  }
}

class PostgresFaultTest : public ::testing::Test {
 protected:
  PgTestServer& server() { return PgTestServer::Shared(); }
  const std::string url_ = server().NewDatabase();
};

// ---- Locks and ended sessions
// --------------------------------------------------------------------

TEST_F(PostgresFaultTest, ALockedQueueDoesNotHoldUpItsNeighbours) {
  PostgresConfig config;
  config.lock_timeout = milliseconds(100);
  const auto store = OpenStore(url_, config);
  for (const char* name : {"aa", "bb", "cc"}) {
    ASSERT_TRUE(CommitOne(*store, TestLease(name)).ok());
  }
  Session other(url_);
  other.Lock("bb");
  std::int64_t id = 10;
  for (const auto& make :
       {+[](const char* queue, std::int64_t i) { return TestCreate(queue, i); },
        +[](const char* queue, std::int64_t i) { return OwnersCreate(queue, i); }}) {
    ++id;
    const std::vector<QueueWrite> group = {make("aa", id), make("bb", id), make("cc", id),
                                           make("dd", id)};
    const std::vector<Status> results = store->Commit(group);
    EXPECT_TRUE(results[0].ok()) << results[0];
    EXPECT_EQ(results[1].code(), StatusCode::kUnavailable) << results[1];
    EXPECT_TRUE(results[2].ok()) << results[2];
    EXPECT_FALSE(results[3].ok());
  }
  other.Sql("ROLLBACK");
  EXPECT_EQ(TaskIds(*store, "aa"), Ids({11, 12}));
  EXPECT_EQ(TaskIds(*store, "bb"), Ids());
  EXPECT_TRUE(CommitOne(*store, TestCreate("bb", 1)).ok());
  EXPECT_EQ(CommitOne(*store, TestCreate("dd", 1)).code(), StatusCode::kFenced);
}

TEST_F(PostgresFaultTest, AStatementThatTakesTooLongIsSurelyNotApplied) {
  PostgresConfig config;
  config.lock_timeout = std::chrono::hours(1);
  config.statement_timeout = milliseconds(200);
  const auto store = OpenStore(url_, config);
  ASSERT_TRUE(CommitOne(*store, TestLease("q")).ok());
  Session other(url_);
  other.Lock("q");
  const Status refused = CommitOne(*store, TestCreate("q", 1));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
  other.Sql("ROLLBACK");
  EXPECT_EQ(TaskIds(*store, "q"), Ids());
  EXPECT_TRUE(CommitOne(*store, TestCreate("q", 2)).ok());
  EXPECT_EQ(TaskIds(*store, "q"), Ids({2}));
}

TEST_F(PostgresFaultTest, ASessionEndedInItsTransactionHasSurelyNotApplied) {
  PostgresConfig config;
  config.lock_timeout = std::chrono::hours(1);
  const auto store = OpenStore(url_, config);
  ASSERT_TRUE(CommitOne(*store, TestLease("q")).ok());
  Session other(url_);
  other.Lock("q");
  Status status;
  std::thread writer([&] { status = CommitOne(*store, TestCreate("q", 1)); });
  Session third(url_);
  AwaitBlocked(third);
  third.Sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
      "'millrace' AND wait_event_type = 'Lock'");
  writer.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  other.Sql("ROLLBACK");
  // A session that is gone is replaced; nobody else noticed.
  EXPECT_TRUE(CommitOne(*store, TestCreate("q", 2)).ok());
  EXPECT_EQ(TaskIds(*store, "q"), Ids({2}));
}

TEST_F(PostgresFaultTest, SessionsEndedAtRestAreReplaced) {
  // Nobody looks at them meanwhile.
  PostgresConfig config;
  config.url = url_;
  config.watch_interval = std::chrono::hours(1);
  auto opened = PostgresTaskStore::Open(config, StandaloneLayout(), NullMetrics(), Quiet());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<PostgresTaskStore> store = std::move(*opened);
  ASSERT_TRUE(CommitOne(*store, TestLease("q")).ok());
  Session other(url_);
  for (int id = 1; id <= 5; ++id) {
    other.Sql(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
        "application_name = 'millrace'");
    const Status status = CommitOne(*store, TestCreate("q", id));
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(store->Health().ok());
  EXPECT_EQ(TaskIds(*store, "q"), Ids({1, 2, 3, 4, 5}));
}

// ---- Lost replies
// --------------------------------------------------------------------------------

class LostReplyTest : public PostgresFaultTest {
 protected:
  void SetUp() override {
    PostgresConfig config;
    config.connections_max = 2;
    config.statement_timeout = milliseconds(300);
    config.reply_margin = milliseconds(200);
    const std::string database = url_.substr(url_.rfind('=') + 1);
    store_ = OpenStore(server().Url(database, proxy_.folder()), config);
    direct_ = OpenStore(url_);
    ASSERT_TRUE(CommitOne(*store_, TestLease("q")).ok());
    // Prepares the statements that the tests meet on their way.
    QueueWrite nothing;
    nothing.queue = {"ns", "q", 0};
    nothing.expected_range_id = RangeId{1};
    ASSERT_TRUE(CommitOne(*store_, nothing).ok());
    ASSERT_TRUE(CommitOne(*store_, TestCreate("q", 1)).ok());
    nothing.deletes = {{0, {0, TaskId{1}}}};
    ASSERT_TRUE(CommitOne(*store_, nothing).ok());
    ASSERT_EQ(TaskIds(*store_, "q"), Ids());
  }

  PgTestProxy proxy_{server().socket()};
  std::unique_ptr<PostgresTaskStore> store_;
  std::unique_ptr<PostgresTaskStore> direct_;
};

TEST_F(LostReplyTest, TheAnswerIsCutOff) {
  for (const Harm harm : {Harm::kCutAfter, Harm::kHalfAnswer, Harm::kSilence}) {
    const auto id = static_cast<std::int64_t>(harm);
    SCOPED_TRACE(id);
    ASSERT_TRUE(CommitOne(*store_, TestCreate("q", 100 + id)).ok());
    proxy_.Arm(harm);
    const Status status = CommitOne(*store_, TestCreate("q", id));
    EXPECT_EQ(status.code(), StatusCode::kUnknownOutcome) << status;
    const Ids ids = TaskIds(*direct_, "q");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1) << "it was applied";
  }
}

TEST_F(LostReplyTest, TheMessageIsCutOff) {
  proxy_.Arm(Harm::kCutBefore);
  const Status status = CommitOne(*store_, TestCreate("q", 1));
  EXPECT_EQ(status.code(), StatusCode::kUnknownOutcome) << status;
  EXPECT_EQ(TaskIds(*direct_, "q"), Ids());
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 2)).ok());
}

TEST_F(LostReplyTest, AWriteThatArrivesLateMeetsTheNewRangeId) {
  proxy_.Arm(Harm::kHold);
  const Status status = CommitOne(*store_, TestCreate("q", 1));
  EXPECT_EQ(status.code(), StatusCode::kUnknownOutcome) << status;
  EXPECT_TRUE(CommitOne(*store_, TestLease("q", 2)).ok());
  proxy_.Release();
  EXPECT_EQ(TaskIds(*direct_, "q"), Ids());
  EXPECT_EQ(direct_->ReadMetadata({"ns", "q", 0})->range_id, RangeId{2});
}

TEST_F(LostReplyTest, ALateLeaseKeepsWhatWasWrittenMeanwhile) {
  QueueWrite lease = TestLease("q", 2);
  lease.keep_owner_state = true;
  proxy_.Arm(Harm::kHold);
  EXPECT_EQ(CommitOne(*store_, lease).code(), StatusCode::kUnknownOutcome);
  QueueWrite write = TestCreate("q", 5);
  write.metadata = TestMetadata(1);
  write.metadata->owner_state = "state";
  write.metadata->subqueues[0].approximate_count = 1;
  ASSERT_TRUE(CommitOne(*direct_, write).ok());
  proxy_.Release();
  const Result<QueueMetadata> found = direct_->ReadMetadata({"ns", "q", 0});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->range_id, RangeId{2});
  EXPECT_EQ(found->owner_state, "state");
  EXPECT_EQ(found->subqueues[0].approximate_count, 1);
}

TEST_F(LostReplyTest, ADeletionThatNeverArrivedMayBeRepeated) {
  proxy_.Arm(Harm::kCutBefore);
  EXPECT_EQ(store_->DeleteQueue({"ns", "q", 0}, RangeId{1}).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(direct_->ReadMetadata({"ns", "q", 0}).ok());
  EXPECT_TRUE(store_->DeleteQueue({"ns", "q", 0}, RangeId{1}).ok());
}

TEST_F(LostReplyTest, AReadWhoseAnswerIsLostMayBeRepeated) {
  ASSERT_TRUE(store_->ReadMetadata({"ns", "q", 0}).ok());
  proxy_.Arm(Harm::kCutAfter);
  EXPECT_EQ(store_->ReadMetadata({"ns", "q", 0}).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(store_->ReadMetadata({"ns", "q", 0}).ok());
}

// ---- The server stops
// ----------------------------------------------------------------------------

// Writes task after task and keeps book. An unknown outcome is decided as the engine does it.
class Writer {
 public:
  Writer(TaskStore& store, std::string queue) : store_(store), queue_(std::move(queue)) {
    MR_CHECK(CommitOne(store_, TestLease(queue_)).ok());
    thread_ = std::thread([this] { Loop(); });
  }
  void AwaitWritten(std::int64_t more) const {
    const std::int64_t target = written_ + more;
    while (written_ < target) std::this_thread::yield();
  }
  void Stop() {
    stopping_ = true;
    thread_.join();
  }
  [[nodiscard]] const std::set<std::int64_t>& stored() const { return stored_; }
  [[nodiscard]] int unknown() const { return unknown_; }

 private:
  void Loop() {
    for (std::int64_t id = 1; !stopping_; ++id) {
      const Status status = CommitOne(store_, TestCreate(queue_, id, range_id_));
      if (status.ok()) {
        stored_.insert(id);
        ++written_;
      } else if (status.code() == StatusCode::kUnknownOutcome) {
        ++unknown_;
        Fence();
        const Ids ids = Ask([&] { return TaskIds(store_, queue_); });
        if (std::count(ids.begin(), ids.end(), id) > 0) stored_.insert(id);
      } else {
        EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
      }
    }
  }
  void Fence() {
    for (;;) {
      QueueWrite lease = TestLease(queue_, range_id_ + 1);
      lease.keep_owner_state = true;
      const Status status = CommitOne(store_, lease);
      if (status.ok()) break;
      const auto found = store_.ReadMetadata(lease.queue);
      if (found.ok() && found->range_id.value == range_id_ + 1) break;
    }
    ++range_id_;
  }
  Ids Ask(const std::function<Ids()>& read) {
    for (;;) {
      Ids ids = read();
      if (ids != Ids({-1})) return ids;
    }
  }

  TaskStore& store_;
  const std::string queue_;
  std::int64_t range_id_ = 1;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> written_{0};
  std::set<std::int64_t> stored_;
  int unknown_ = 0;
  std::thread thread_;
};

class ServerStopTest : public ::testing::TestWithParam<PgTestServer::StopMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, ServerStopTest,
                         ::testing::Values(PgTestServer::StopMode::kFast,
                                           PgTestServer::StopMode::kImmediate),
                         [](const auto& p) {
                           return p.param == PgTestServer::StopMode::kFast ? "Fast" : "Immediate";
                         });

TEST_P(ServerStopTest, WhatIsReportedIsWhatIsStored) {
  PgTestServer server;
  const auto store = OpenStore(server.NewDatabase());
  Writer one(*store, "one");
  Writer two(*store, "two");
  for (int round = 0; round < 4; ++round) {
    one.AwaitWritten(20);
    two.AwaitWritten(20);
    server.Stop(GetParam());
    AwaitHealth(*store, false);
    server.Start();
    AwaitHealth(*store, true);
  }
  one.AwaitWritten(20);
  one.Stop();
  two.Stop();
  for (const auto& [writer, name] : {std::pair(&one, "one"), std::pair(&two, "two")}) {
    const Ids ids = TaskIds(*store, name);
    EXPECT_EQ(std::set(ids.begin(), ids.end()), writer->stored());
  }
}

TEST(PostgresHealthTest, TellsWithoutAWriteThatTheServerIsGone) {
  PgTestServer server;
  const auto store = OpenStore(server.NewDatabase());
  EXPECT_TRUE(store->Health().ok());
  server.Stop(PgTestServer::StopMode::kFast);
  AwaitHealth(*store, false);
  EXPECT_EQ(CommitOne(*store, TestLease("q")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(store->ReadMetadata({"ns", "q", 0}).code(), StatusCode::kUnavailable);
  server.Start();
  AwaitHealth(*store, true);
  EXPECT_TRUE(CommitOne(*store, TestLease("q")).ok());
}

// ---- Two owners
// ----------------------------------------------------------------------------------

// Each takes the queue over and over, and writes as long as it can.
TEST_F(PostgresFaultTest, TwoNodesRaceForOneQueue) {
  const std::unique_ptr<PostgresTaskStore> stores[] = {OpenStore(url_), OpenStore(url_)};
  ASSERT_TRUE(CommitOne(*stores[0], TestLease("q")).ok());
  std::set<std::int64_t> leases[2];
  std::set<std::int64_t> rows[2];
  std::thread nodes[2];
  for (int node = 0; node < 2; ++node) {
    nodes[node] = std::thread([&, node] {
      TaskStore& store = *stores[node];
      for (int turn = 0; turn < 60; ++turn) {
        const Result<QueueMetadata> found = store.ReadMetadata({"ns", "q", 0});
        ASSERT_TRUE(found.ok());
        const std::int64_t range_id = found->range_id.value + 1;
        QueueWrite lease = TestLease("q", range_id);
        lease.keep_owner_state = true;
        const Status taken = CommitOne(store, lease);
        ASSERT_TRUE(taken.ok() || taken.code() == StatusCode::kFenced) << taken;
        if (!taken.ok()) continue;
        leases[node].insert(range_id);
        for (int i = 0; i < 4; ++i) {
          const std::int64_t id = range_id * 10 + i;
          const Status written = CommitOne(
              store, i % 2 == 0 ? OwnersCreate("q", id, range_id) : TestCreate("q", id, range_id));
          ASSERT_TRUE(written.ok() || written.code() == StatusCode::kFenced) << written;
          if (!written.ok()) break;
          rows[node].insert(range_id * 10 + i);
        }
      }
    });
  }
  for (std::thread& node : nodes) node.join();
  for (const std::int64_t lease : leases[0]) EXPECT_FALSE(leases[1].contains(lease));
  std::set<std::int64_t> all = rows[0];
  all.insert(rows[1].begin(), rows[1].end());
  const Ids ids = TaskIds(*stores[0], "q");
  EXPECT_EQ(std::set(ids.begin(), ids.end()), all);
}

// Groups of many queues in opposite orders: locks are taken in one order, so nobody deadlocks.
TEST_F(PostgresFaultTest, TwoNodesWithTheSameManyQueuesNeverDeadlock) {
  constexpr int kQueues = 30;
  const std::unique_ptr<PostgresTaskStore> stores[] = {OpenStore(url_), OpenStore(url_)};
  std::vector<QueueWrite> leases;
  for (int q = 0; q < kQueues; ++q) leases.push_back(TestLease("queue" + std::to_string(q)));
  for (const Status& status : stores[0]->Commit(leases)) ASSERT_TRUE(status.ok());
  std::thread nodes[2];
  for (int node = 0; node < 2; ++node) {
    nodes[node] = std::thread([&, node] {
      for (int turn = 0; turn < 40; ++turn) {
        std::vector<QueueWrite> group;
        for (int q = 0; q < kQueues; ++q) {
          const int queue = node == 0 ? q : kQueues - 1 - q;
          // Of both kinds, so that the two statements meet as well.
          const std::string name = "queue" + std::to_string(queue);
          const std::int64_t id = 2 * turn + node;
          group.push_back(turn % 3 == node ? TestCreate(name, id) : OwnersCreate(name, id));
        }
        for (const Status& status : stores[node]->Commit(group)) EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& node : nodes) node.join();
  EXPECT_EQ(TaskIds(*stores[0], "queue7").size(), 80u);
  EXPECT_EQ(
      server().Sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
                   url_.substr(url_.rfind('=') + 1)),
      "0");
}

TEST_F(PostgresFaultTest, OfOwnersGroupOnlyTheOnesThatLostTheirQueueAreFenced) {
  const auto store = OpenStore(url_);
  for (const char* name : {"aa", "bb", "cc"}) {
    ASSERT_TRUE(CommitOne(*store, TestLease(name)).ok());
  }
  ASSERT_TRUE(CommitOne(*store, TestLease("bb", 2)).ok());
  const std::vector<QueueWrite> group = {OwnersCreate("cc", 1), OwnersCreate("bb", 1),
                                         OwnersCreate("aa", 1), OwnersCreate("nobody", 1)};
  const std::vector<Status> results = store->Commit(group);
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_EQ(results[1].code(), StatusCode::kFenced);
  EXPECT_NE(results[1].message().find("range id is 2, expected 1"), std::string::npos);
  EXPECT_TRUE(results[2].ok()) << results[2];
  EXPECT_EQ(results[3].code(), StatusCode::kFenced);
  EXPECT_EQ(TaskIds(*store, "aa"), Ids({1}));
  EXPECT_EQ(TaskIds(*store, "bb"), Ids());
  EXPECT_EQ(TaskIds(*store, "cc"), Ids({1}));
  EXPECT_EQ(TaskIds(*store, "nobody"), Ids());
  EXPECT_EQ(store->ReadMetadata({"ns", "bb", 0})->range_id, RangeId{2});
}

// ---- Rows and space
// ------------------------------------------------------------------------------

TEST_F(PostgresFaultTest, AKeyThatIsThereAlreadyIsReplacedAndNobodyElseNotices) {
  const auto store = OpenStore(url_);
  ASSERT_TRUE(CommitOne(*store, TestLease("a")).ok());
  ASSERT_TRUE(CommitOne(*store, TestLease("b")).ok());
  ASSERT_TRUE(CommitOne(*store, TestCreate("a", 1, 1, "first")).ok());
  const std::vector<QueueWrite> group = {TestCreate("a", 1, 1, "second"), TestCreate("b", 1)};
  for (const Status& status : store->Commit(group)) EXPECT_TRUE(status.ok()) << status;
  const auto page = store->ReadTasks({"ns", "a", 0}, 0, TaskLevel::Min(), TaskLevel::Max(), 9, 9);
  EXPECT_EQ(page->rows.at(0).payload, "second");
}

TEST_F(PostgresFaultTest, DamagedAndForeignRowsFaultTheirQueueOnly) {
  const auto store = OpenStore(url_);
  for (const char* name : {"aa", "bb", "cc"}) {
    ASSERT_TRUE(CommitOne(*store, TestLease(name)).ok());
    ASSERT_TRUE(CommitOne(*store, TestCreate(name, 1)).ok());
  }
  Session other(url_);
  other.Sql(
      "UPDATE task_queues_v2 SET data = set_byte(data, 15, get_byte(data, 15) # 1) WHERE "
      "position('aa'::bytea IN task_queue_id) > 0");
  other.Sql(
      "UPDATE tasks_v2 SET data_encoding = 'Proto3' WHERE position('bb'::bytea IN "
      "task_queue_id) > 0");
  EXPECT_EQ(store->ReadMetadata({"ns", "aa", 0}).code(), StatusCode::kCorruption);
  EXPECT_EQ(TaskIds(*store, "aa"), Ids({1}));
  EXPECT_TRUE(store->ReadMetadata({"ns", "bb", 0}).ok());
  EXPECT_EQ(store->ReadTasks({"ns", "bb", 0}, 0, TaskLevel::Min(), TaskLevel::Max(), 9, 9).code(),
            StatusCode::kCorruption);
  EXPECT_EQ(TaskIds(*store, "cc"), Ids({1}));
}

TEST_F(PostgresFaultTest, ABadRowHidesNoOtherQueueFromAList) {
  const auto store = OpenStore(url_);
  for (const char* name : {"aa", "bb", "cc", "dd", "ee"}) {
    ASSERT_TRUE(CommitOne(*store, TestLease(name)).ok());
  }
  Session other(url_);
  // The first, one in the middle and the last; ids that are no queue's before and between them.
  other.Sql(
      "UPDATE task_queues_v2 SET data = set_byte(data, 15, get_byte(data, 15) # 1) WHERE "
      "position('aa'::bytea IN task_queue_id) > 0 OR position('cc'::bytea IN task_queue_id) > 0");
  other.Sql(
      "UPDATE task_queues_v2 SET data_encoding = 'Proto3' WHERE "
      "position('ee'::bytea IN task_queue_id) > 0");
  other.Sql(
      "INSERT INTO task_queues_v2 SELECT range_hash, substring(task_queue_id FOR 16), range_id, "
      "data, data_encoding FROM task_queues_v2 WHERE position('bb'::bytea IN task_queue_id) > 0");
  other.Sql(
      "INSERT INTO task_queues_v2 SELECT range_hash, task_queue_id || '\\x00'::bytea, range_id, "
      "data, data_encoding FROM task_queues_v2 WHERE position('bb'::bytea IN task_queue_id) > 0");
  for (const std::size_t limit : {1, 2, 3, 10}) {
    SCOPED_TRACE(limit);
    std::vector<std::string> names;
    std::string token;
    do {
      const Result<QueuePage> page = store->ListQueues(token, limit);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_LE(page->queues.size(), limit);
      for (const QueueEntry& entry : page->queues) names.push_back(entry.key.persistence_name);
      token = page->next_page_token;
    } while (!token.empty());
    EXPECT_EQ(names, (std::vector<std::string>{"bb", "dd"}));
  }
  // The range id can be read even so; a queue without one cannot be owned.
  other.Sql(
      "UPDATE task_queues_v2 SET range_id = 0 WHERE position('dd'::bytea IN task_queue_id) > 0");
  const std::vector<PhysicalQueueKey> queues = {{"ns", "aa", 0}, {"ns", "dd", 0}, {"ns", "bb", 0}};
  const std::vector<Result<RangeId>> ids = store->ReadRangeIds(queues);
  EXPECT_EQ(*ids[0], RangeId{1});
  EXPECT_EQ(ids[1].code(), StatusCode::kCorruption);
  EXPECT_EQ(*ids[2], RangeId{1});
}

// A file system of a few megabytes; unmounted at the end.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    MR_CHECK(mkdir(path.c_str(), 0755) == 0);
    struct stat parent{};
    MR_CHECK(stat((path + "/..").c_str(), &parent) == 0);
    const std::string options = "size=12m,mode=0700,uid=" + std::to_string(parent.st_uid) +
                                ",gid=" + std::to_string(parent.st_gid);
    mounted_ = mount("millrace", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  const std::string path_;
  bool mounted_ = false;
};

TEST(PostgresSpaceTest, AFullDiskRefusesEveryWriteForCertainAndHealsByItself) {
  PgTestServer server;
  const std::string path = server.folder() + "/small";
  const SmallDisk disk(path);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system is not permitted here";
  const std::string url = server.NewDatabase();
  const std::string database = url.substr(url.rfind('=') + 1);
  server.Sql("CREATE TABLESPACE small LOCATION '" + path + "'");
  server.Sql(
      "CREATE TABLE ballast TABLESPACE small AS SELECT repeat('x', 1000) AS filler FROM "
      "generate_series(1, 6000)",
      database);
  server.Sql("ALTER TABLE tasks_v2 SET TABLESPACE small", database);
  server.Sql("ALTER TABLE millrace_probe SET TABLESPACE small", database);
  const auto store = OpenStore(url);
  ASSERT_TRUE(CommitOne(*store, TestLease("q")).ok());
  // Long values are compressed: random ones fill the disk.
  SeededRandom random(1);
  std::string payload(200'000, '\0');
  for (char& c : payload) c = static_cast<char>(random.Next());
  std::set<std::int64_t> stored;
  std::int64_t id = 1;
  Status status;
  for (; status.ok(); ++id) {
    status = CommitOne(*store, TestCreate("q", id, 1, payload));
    if (status.ok()) stored.insert(id);
    ASSERT_LT(id, 1'000);
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  AwaitHealth(*store, false);
  EXPECT_EQ(CommitOne(*store, TestCreate("q", id, 1, payload)).code(), StatusCode::kUnavailable);
  server.Sql("DROP TABLE ballast", database);
  AwaitHealth(*store, true);
  EXPECT_TRUE(CommitOne(*store, TestCreate("q", ++id, 1, payload)).ok());
  stored.insert(id);
  const Ids ids = TaskIds(*store, "q");
  EXPECT_EQ(std::set(ids.begin(), ids.end()), stored);
}

}  // namespace
}  // namespace millrace::store
