// What a statement reads depends on what it is asked for, not on what else lies in the tables: also
// when its plan was made while they were empty, and the server believed that they stay so.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/base/check.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/temporal_layout.h"
#include "millrace/store/postgres/test_server.h"

namespace millrace::store {
namespace {

constexpr int kQueues = 2'000;
constexpr int kTasks = 20'000;
constexpr int kSideRows = 2'000;
constexpr int kFew = 20;  // Rows an operation is about.
// Each row may be looked at a few times, and what the plans were made with is in the figure too;
// all of a table may not be.
constexpr long kReadsMax = 1'000;

PhysicalQueueKey Queue(const std::string& name) {
  return {"00112233-4455-6677-8899-aabbccddeeff", "/_sys/" + name + "/1", 1};
}

PhysicalQueueKey Small(int n) { return Queue("small" + std::to_string(n)); }

QueueMetadata Metadata(std::int64_t range_id) {
  QueueMetadata metadata;
  metadata.range_id = RangeId{range_id};
  metadata.subqueues.resize(1);
  metadata.update_time = WallTime{1};
  return metadata;
}

QueueWrite NewQueue(const PhysicalQueueKey& queue) {
  QueueWrite write;
  write.queue = queue;
  write.metadata = Metadata(1);
  write.durability = Durability::kRelaxed;
  return write;
}

// Of a queue that is there.
QueueWrite Write(const PhysicalQueueKey& queue) {
  QueueWrite write = NewQueue(queue);
  write.expected_range_id = RangeId{1};
  return write;
}

std::string SideKey(int n) { return "k" + std::to_string(1'000'000 + n); }

void Commit(TaskStore& store, const std::vector<QueueWrite>& writes) {
  for (const Status& status : store.Commit(writes)) ASSERT_TRUE(status.ok()) << status.ToString();
}

// Tasks and side rows from `first` on.
QueueWrite Rows(const PhysicalQueueKey& queue, int first, int tasks, int side_rows) {
  QueueWrite write = Write(queue);
  for (int i = first; i < first + tasks; ++i) {
    write.creates.push_back({{0, {0, TaskId{i}}}, WallTime{1'000'000'000}, {}, ""});
  }
  for (int i = first; i < first + side_rows; ++i) write.side_puts.push_back({SideKey(i), "v"});
  return write;
}

struct Operation {
  const char* name;
  std::function<void(TaskStore&, const PhysicalQueueKey& queue)> run;
};

void DeletesRows(TaskStore& store, const PhysicalQueueKey& queue, bool update) {
  QueueWrite write = Write(queue);
  if (!update) write.metadata.reset();
  for (int i = 0; i < kFew; ++i) {
    write.deletes.push_back({0, {0, TaskId{2 * i + 1}}});
    write.side_deletes.push_back(SideKey(2 * i + 1));
  }
  Commit(store, {write});
}

const std::vector<Operation>& Operations() {
  static const std::vector<Operation> all = {
      {"DeleteTasksThrough",
       [](TaskStore& store, const PhysicalQueueKey& queue) {
         ASSERT_TRUE(store.DeleteTasksThrough(queue, 0, {0, TaskId{kTasks}}, kFew).ok());
       }},
      {"DeleteRows",
       [](TaskStore& store, const PhysicalQueueKey& queue) { DeletesRows(store, queue, true); }},
      {"DeleteRowsOnly",
       [](TaskStore& store, const PhysicalQueueKey& queue) { DeletesRows(store, queue, false); }},
      {"CreateRows",
       [](TaskStore& store, const PhysicalQueueKey& queue) {
         Commit(store, {Rows(queue, kTasks + 1, kFew, kFew)});
       }},
      {"UpdateQueues",
       [](TaskStore& store, const PhysicalQueueKey&) {
         std::vector<QueueWrite> writes;
         for (int i = 0; i < kFew; ++i) writes.push_back(Write(Small(i)));
         Commit(store, writes);
       }},
      {"TakeQueues",
       [](TaskStore& store, const PhysicalQueueKey&) {
         std::vector<QueueWrite> writes;
         for (int i = 0; i < kFew; ++i) {
           writes.push_back(Write(Small(i)));
           writes.back().keep_owner_state = true;
         }
         Commit(store, writes);
       }},
      {"ReadRangeIds",
       [](TaskStore& store, const PhysicalQueueKey&) {
         std::vector<PhysicalQueueKey> queues;
         for (int i = 0; i < kFew; ++i) queues.push_back(Small(i));
         for (const auto& id : store.ReadRangeIds(queues)) ASSERT_TRUE(id.ok());
       }},
      {"ReadTasks",
       [](TaskStore& store, const PhysicalQueueKey& queue) {
         ASSERT_TRUE(
             store.ReadTasks(queue, 0, {0, TaskId{5}}, {0, TaskId{kTasks}}, kFew, 1'000'000).ok());
       }},
      {"ReadSideRows",
       [](TaskStore& store, const PhysicalQueueKey& queue) {
         ASSERT_TRUE(store.ReadSideRows(queue, "k", SideKey(5), kFew).ok());
       }},
      {"ListQueues",
       [](TaskStore& store, const PhysicalQueueKey&) {
         const auto page = store.ListQueues("", kFew);
         ASSERT_TRUE(page.ok());
         EXPECT_EQ(page->queues.size(), kFew);
       }},
      {"DeleteQueue",
       [](TaskStore& store, const PhysicalQueueKey&) {
         ASSERT_TRUE(store.DeleteQueue(Small(0), RangeId{1}).ok());
       }},
  };
  return all;
}

std::shared_ptr<const RowLayout> LayoutOf(const std::string& name) {
  if (name == "Standalone") return {std::shared_ptr<void>(), &StandaloneLayout()};
  return MakeTemporalLayout(name == "Fair" ? TemporalTables::kFair : TemporalTables::kClassic,
                            nullptr);
}

class PostgresPlans : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  std::unique_ptr<PostgresTaskStore> Open(const std::string& url) {
    PostgresConfig config;
    config.url = url;
    config.connections_max = 1;
    auto opened = PostgresTaskStore::Open(config, *layout_, NullMetrics(), log_);
    MR_CHECK(opened.ok());
    return std::move(*opened);
  }

  NullLog log_;
  const std::shared_ptr<const RowLayout> layout_ = LayoutOf(std::get<0>(GetParam()));
};

TEST_P(PostgresPlans, ReadWhatTheyAreAskedFor) {
  const Operation& operation = Operations()[std::get<1>(GetParam())];
  PgTestServer& server = PgTestServer::Shared();
  const std::string url = server.NewDatabase();
  const std::string database = url.substr(url.rfind('=') + 1);
  server.Sql("VACUUM ANALYZE", database);
  std::unique_ptr<PostgresTaskStore> planned = Open(url);
  // Plans are made at first use.
  Commit(*planned, {NewQueue(Queue("first"))});
  for (int i = 0; i < kFew; ++i) Commit(*planned, {NewQueue(Small(i))});
  Commit(*planned, {Rows(Queue("first"), 1, 2 * kFew, 2 * kFew)});
  operation.run(*planned, Queue("first"));
  if (HasFatalFailure()) return;

  {
    std::unique_ptr<PostgresTaskStore> filling = Open(url);
    std::vector<QueueWrite> writes{NewQueue(Queue("big"))};
    if (operation.name == std::string("DeleteQueue")) writes.push_back(NewQueue(Small(0)));
    for (int i = kFew; i < kQueues; ++i) writes.push_back(NewQueue(Small(i)));
    Commit(*filling, writes);
    for (int i = 0; i < kTasks; i += 1'000) {
      Commit(*filling, {Rows(Queue("big"), i + 1, 1'000, i < kSideRows ? 1'000 : 0)});
    }
  }
  const auto sessions = [&] {
    return server.Sql(
        "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "backend_type = 'client backend'",
        database);
  };
  const auto await_sessions = [&](const std::string& left) {
    while (sessions() != left) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  await_sessions("1");
  server.Sql("SELECT pg_stat_reset()", database);

  operation.run(*planned, Queue("big"));
  planned.reset();
  // A session tells what it read when it ends.
  await_sessions("0");
  const std::string read =
      server.Sql("SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes", database);
  EXPECT_LE(std::stol(read), kReadsMax) << server.Sql(
      "SELECT string_agg(indexrelname || ' ' || idx_tup_read || ' in ' || idx_scan, ', ') FROM "
      "pg_stat_user_indexes WHERE idx_tup_read > 0",
      database);
  EXPECT_EQ(server.Sql("SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables", database),
            "0");
}

INSTANTIATE_TEST_SUITE_P(AllTables, PostgresPlans,
                         ::testing::Combine(::testing::Values("Standalone", "Classic", "Fair"),
                                            ::testing::Range(std::size_t{0}, Operations().size())),
                         [](const ::testing::TestParamInfo<PostgresPlans::ParamType>& param) {
                           return std::get<0>(param.param) +
                                  Operations()[std::get<1>(param.param)].name;
                         });

}  // namespace
}  // namespace millrace::store
