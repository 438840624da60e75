// Rows as Temporal's matching service keeps them, in both kinds of table.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "millrace/base/check.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/temporal_layout.h"
#include "millrace/store/postgres/test_server.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::store {
namespace {

using namespace std::string_view_literals;
namespace pb = temporal::server::api::persistence::v1;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr char kNamespace[] = "00112233-4455-6677-8899-aabbccddeeff";

PhysicalQueueKey Queue(std::string name = "/_sys/orders/3") {
  return {kNamespace, std::move(name), 2};
}

// A TaskInfo with these times and a field that this store does not know.
std::string TaskInfo(WallTime created, WallTime expires) {
  pb::TaskInfo info;
  if (created.is_set()) info.mutable_create_time()->set_seconds(created.ns / kSecond);
  if (expires.is_set()) info.mutable_expiry_time()->set_seconds(expires.ns / kSecond);
  return "\x12\x02wf" + info.SerializeAsString();
}

TEST(TemporalLayout, IdsAreNamespaceNameAndType) {
  const auto layout = MakeTemporalLayout(TemporalTables::kFair, nullptr);
  const RowLayout::Place place = *layout->PlaceOfQueue(Queue("q"));
  const std::string expected(
      "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xffq\x02"sv);
  EXPECT_EQ(place.task_queue_id, expected);
  EXPECT_EQ(place.range_hash, RangeHash(expected));
  EXPECT_EQ(layout->QueueAt(expected), Queue("q"));
  const RowLayout::Place tasks = layout->PlaceOfTasks(place, 300);
  EXPECT_EQ(tasks.task_queue_id, expected.substr(0, 17) + "\x82\xac\x02");
  EXPECT_EQ(tasks.range_hash, RangeHash(tasks.task_queue_id));
  EXPECT_EQ(layout->PlaceOfTasks(place, 0).task_queue_id, expected);
  for (const char* bad :
       {"", "ns", "00112233-4455-6677-8899-aabbccddeefg", "00112233x4455-6677-8899-aabbccddeeff"}) {
    EXPECT_EQ(layout->PlaceOfQueue({bad, "q", 1}).code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(layout->PlaceOfQueue({kNamespace, "q", 0}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(layout->PlaceOfQueue({kNamespace, "q", 4}).code(), StatusCode::kInvalidArgument);
}

TEST(TemporalLayout, TasksKeepWhatIsNotKnownAndTakeTheRowsTimes) {
  const auto layout = MakeTemporalLayout(TemporalTables::kFair, nullptr);
  const WallTime created{1'700'000'000 * kSecond};
  const WallTime expires{1'700'000'060 * kSecond};
  TaskRow row{{0, {5, TaskId{9}}}, created, expires, TaskInfo(created, expires)};
  std::string data;
  ASSERT_TRUE(layout->EncodeTask(row, data).ok());
  pb::AllocatedTaskInfo allocated;
  ASSERT_TRUE(allocated.ParseFromString(data));
  EXPECT_EQ(allocated.data(), row.payload);
  EXPECT_EQ(allocated.task_pass(), 5);
  EXPECT_EQ(allocated.task_id(), 9);
  TaskRow read{row.key, {}, {}, {}};
  ASSERT_TRUE(layout->DecodeTask(data, "Proto3", read).ok());
  EXPECT_EQ(read, row);

  row.expiry_time = WallTime{};
  row.create_time = WallTime{created.ns + 1};
  data.clear();
  ASSERT_TRUE(layout->EncodeTask(row, data).ok());
  ASSERT_TRUE(layout->DecodeTask(data, "Proto3", read).ok());
  EXPECT_EQ(read.create_time, row.create_time);
  EXPECT_EQ(read.expiry_time, row.expiry_time);
  EXPECT_NE(read.payload.find("\x12\x02wf"), std::string::npos);

  row.payload = "\x0f";
  EXPECT_EQ(layout->EncodeTask(row, data).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(layout->DecodeTask("\x0f", "Proto3", read).code(), StatusCode::kCorruption);
  EXPECT_EQ(layout->DecodeTask(data, "Json", read).code(), StatusCode::kCorruption);
}

TEST(TemporalLayout, AnEmptyMessageIsNotNone) {
  const auto layout = MakeTemporalLayout(TemporalTables::kFair, nullptr);
  const RowLayout::Place place = *layout->PlaceOfQueue(Queue());
  std::string data;
  ASSERT_TRUE(layout->EncodeTask({{0, {5, TaskId{9}}}, {}, {}, ""}, data).ok());
  EXPECT_EQ(data, "\x0a\0\x10\x09\x18\x05"sv);
  pb::TaskQueueInfo info;
  info.set_namespace_id(kNamespace);
  info.set_name(Queue().persistence_name);
  info.set_task_type(2);
  info.set_partition_scale_state("");
  info.mutable_last_update_time()->set_seconds(9);
  info.add_subqueues();
  const std::string before = info.SerializeAsString();
  EXPECT_TRUE(before.ends_with("\x5a\0"sv));
  const QueueMetadata read = *layout->DecodeQueue(place, {4, before, "Proto3", {}, 0, 0});
  layout->EncodeQueue(Queue(), place, read, data);
  EXPECT_EQ(data, before);
}

TEST(TemporalLayout, RowsFromBeforeThereWereSubqueuesHaveOne) {
  const auto layout = MakeTemporalLayout(TemporalTables::kClassic, nullptr);
  pb::TaskQueueInfo info;
  info.set_ack_level(77);
  info.set_approximate_backlog_count(3);
  info.mutable_last_update_time()->set_seconds(9);
  const std::string data = info.SerializeAsString();
  const auto read = layout->DecodeQueue({}, {4, data, "Proto3", std::nullopt, 0, 0});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->range_id, RangeId{4});
  EXPECT_EQ(read->subqueues, (std::vector<SubqueueMetadata>{{{0, TaskId{77}}, 3}}));
  EXPECT_EQ(read->update_time, WallTime{9 * kSecond});
}

// What another engine keeps in a row, and what it may keep there one day, is still there after we
// owned the queue.
TEST(TemporalLayout, AQueueRowKeepsWhatTheEngineDoesNotDecideOn) {
  pb::TaskQueueInfo info;
  info.set_namespace_id(kNamespace);
  info.set_name(Queue().persistence_name);
  info.set_task_type(2);
  info.set_kind(2);
  info.set_ack_level(70);
  info.set_approximate_backlog_count(4);
  info.set_other_has_tasks(true);
  info.set_partition_scale_state("\x08\x07");
  info.mutable_last_update_time()->set_seconds(100);
  info.mutable_expiry_time()->set_seconds(100 + 24 * 3600);
  for (const int priority : {3, 1}) {
    pb::SubqueueInfo& subqueue = *info.add_subqueues();
    subqueue.mutable_key()->set_priority(priority);
    subqueue.set_ack_level(70);
    subqueue.set_approximate_backlog_count(4);
    subqueue.mutable_fair_ack_level()->set_task_pass(2);
    subqueue.mutable_fair_ack_level()->set_task_id(60);
    subqueue.mutable_fair_max_read_level()->set_task_pass(9);
    subqueue.mutable_fair_max_read_level()->set_task_id(80);
    subqueue.add_top_k_fairness_counts("\x0a\x01k");
    subqueue.GetReflection()->MutableUnknownFields(&subqueue)->AddVarint(77, 1);
  }
  info.GetReflection()->MutableUnknownFields(&info)->AddLengthDelimited(99, "new");
  const std::string before = info.SerializeAsString();
  for (const TemporalTables tables : {TemporalTables::kClassic, TemporalTables::kFair}) {
    const bool fair = tables == TemporalTables::kFair;
    const auto layout = MakeTemporalLayout(tables, nullptr);
    const RowLayout::Place place = *layout->PlaceOfQueue(Queue());
    QueueMetadata metadata = *layout->DecodeQueue(place, {4, before, "Proto3", {}, 0, 0});
    std::string after;
    layout->EncodeQueue(Queue(), place, metadata, after);
    EXPECT_EQ(after, before);

    // And what it does decide on changes alone.
    const TaskLevel ack = fair ? TaskLevel{2, TaskId{61}} : TaskLevel{0, TaskId{71}};
    metadata.subqueues[0] = {ack, 3};
    metadata.update_time = WallTime{200 * kSecond};
    layout->EncodeQueue(Queue(), place, metadata, after);
    pb::TaskQueueInfo expected = info;
    expected.mutable_last_update_time()->set_seconds(200);
    expected.mutable_expiry_time()->set_seconds(200 + 24 * 3600);
    expected.set_approximate_backlog_count(3);
    expected.mutable_subqueues(0)->set_approximate_backlog_count(3);
    if (fair) {
      expected.mutable_subqueues(0)->mutable_fair_ack_level()->set_task_id(61);
    } else {
      expected.set_ack_level(71);
      expected.mutable_subqueues(0)->set_ack_level(71);
    }
    EXPECT_EQ(after, expected.SerializeAsString());
    // No task below the ack level was never read.
    metadata.subqueues[0].ack_level = fair ? TaskLevel{10, TaskId{1}} : ack;
    layout->EncodeQueue(Queue(), place, metadata, after);
    ASSERT_TRUE(expected.ParseFromString(after));
    EXPECT_EQ(expected.subqueues(0).fair_max_read_level().task_pass(), fair ? 10 : 9);
  }
}

// ---- In the database
// -----------------------------------------------------------------------------

class TemporalStoreTest : public ::testing::TestWithParam<TemporalTables> {
 protected:
  void SetUp() override {
    TemporalFactsOf facts = [](const PhysicalQueueKey&) {
      TemporalQueueFacts out;
      out.kind = 2;
      out.time_to_live = std::chrono::hours(24);
      out.priorities = {3, 1};
      return out;
    };
    layout_ = MakeTemporalLayout(GetParam(), std::move(facts));
    PostgresConfig config;
    config.url = PgTestServer::Shared().NewDatabase();
    database_ = config.url.substr(config.url.rfind('=') + 1);
    auto opened = PostgresTaskStore::Open(config, *layout_, NullMetrics(), log_);
    MR_CHECK(opened.ok());
    store_ = std::move(*opened);
  }
  [[nodiscard]] std::int64_t Pass(std::int64_t pass) const {
    return GetParam() == TemporalTables::kFair ? pass : 0;
  }
  QueueMetadata Metadata(std::int64_t range_id, std::string state) const {
    QueueMetadata metadata;
    metadata.range_id = RangeId{range_id};
    metadata.subqueues = {{{Pass(1), TaskId{10}}, 5}, {{Pass(2), TaskId{20}}, 6}};
    metadata.update_time = WallTime{1'700'000'000 * kSecond + 5};
    metadata.owner_state = std::move(state);
    return metadata;
  }
  Status Commit(const QueueWrite& write) { return store_->Commit({&write, 1}).at(0); }
  Status Lease(std::int64_t range_id, bool keep, const std::string& state = "state") {
    QueueWrite write;
    write.queue = Queue();
    write.expected_range_id = RangeId{range_id - 1};
    write.metadata = Metadata(range_id, state);
    write.keep_owner_state = keep;
    return Commit(write);
  }
  // Without what only the store looks into.
  QueueMetadata Stored() {
    QueueMetadata metadata = store_->ReadMetadata(Queue()).value();
    metadata.carried.clear();
    return metadata;
  }
  std::string Sql(const std::string& text) { return PgTestServer::Shared().Sql(text, database_); }
  std::vector<TaskRow> Rows(Subqueue subqueue) {
    auto page =
        store_->ReadTasks(Queue(), subqueue, TaskLevel::Min(), TaskLevel::Max(), 100, 1'000'000);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? page->rows : std::vector<TaskRow>();
  }

  NullLog log_;
  std::unique_ptr<RowLayout> layout_;
  std::string database_;
  std::unique_ptr<PostgresTaskStore> store_;
};
INSTANTIATE_TEST_SUITE_P(Tables, TemporalStoreTest,
                         ::testing::Values(TemporalTables::kClassic, TemporalTables::kFair),
                         [](const auto& p) {
                           return p.param == TemporalTables::kFair ? "Fair" : "Classic";
                         });

TEST_P(TemporalStoreTest, MetadataTasksAndSideRowsComeBack) {
  ASSERT_TRUE(Lease(1, false).ok());
  EXPECT_EQ(Stored(), Metadata(1, "state"));
  EXPECT_EQ(Lease(1, false).code(), StatusCode::kFenced);
  const WallTime created{1'700'000'000 * kSecond};
  QueueWrite write;
  write.queue = Queue();
  write.expected_range_id = RangeId{1};
  for (const auto& [subqueue, id] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 3)}) {
    write.creates.push_back(
        {{subqueue, {Pass(7), TaskId{id}}}, created, {}, TaskInfo(created, {})});
  }
  write.side_puts = {{"k", "v"}};
  write.metadata = Metadata(1, "");
  ASSERT_TRUE(Commit(write).ok());
  EXPECT_EQ(Rows(0), (std::vector<TaskRow>{write.creates[0], write.creates[1]}));
  EXPECT_EQ(Rows(1), (std::vector<TaskRow>{write.creates[2]}));
  EXPECT_EQ(store_->ReadMetadata(Queue())->owner_state, "");
  EXPECT_EQ(store_->ReadSideRows(Queue(), "", "", 9)->rows.size(), 1u);
  EXPECT_EQ(*store_->DeleteTasksThrough(Queue(), 0, {Pass(7), TaskId{1}}, 10), 1);
  EXPECT_EQ(Rows(0), (std::vector<TaskRow>{write.creates[1]}));

  QueueWrite end;
  end.queue = Queue();
  end.expected_range_id = RangeId{1};
  end.deletes = {write.creates[1].key};
  ASSERT_TRUE(Commit(end).ok());
  EXPECT_TRUE(Rows(0).empty());

  const auto listed = store_->ListQueues("", 10);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->queues.size(), 1u);
  EXPECT_EQ(listed->queues[0].key, Queue());

  ASSERT_TRUE(store_->DeleteQueue(Queue(), RangeId{1}).ok());
  for (const char* table : {"task_queues", "task_queues_v2", "tasks", "tasks_v2",
                            "millrace_side_rows", "millrace_queue_state"}) {
    EXPECT_EQ(Sql("SELECT count(*) FROM " + std::string(table)), "0") << table;
  }
}

TEST_P(TemporalStoreTest, OnlyFairTablesHavePasses) {
  ASSERT_TRUE(Lease(1, false).ok());
  QueueWrite write;
  write.queue = Queue();
  write.expected_range_id = RangeId{1};
  write.creates.push_back({{0, {4, TaskId{1}}}, {}, {}, ""});
  EXPECT_EQ(Commit(write).code(),
            GetParam() == TemporalTables::kFair ? StatusCode::kOk : StatusCode::kInvalidArgument);
}

TEST_P(TemporalStoreTest, TheRowSaysWhatTemporalExpects) {
  ASSERT_TRUE(Lease(1, false).ok());
  const std::string table = GetParam() == TemporalTables::kFair ? "task_queues_v2" : "task_queues";
  EXPECT_EQ(Sql("SELECT data_encoding FROM " + table), "Proto3");
  EXPECT_EQ(Sql("SELECT range_hash FROM " + table),
            std::to_string(layout_->PlaceOfQueue(Queue())->range_hash));
  std::string hex = Sql("SELECT encode(data, 'hex') FROM " + table);
  std::string data;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    data.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  pb::TaskQueueInfo info;
  ASSERT_TRUE(info.ParseFromString(data));
  EXPECT_EQ(info.namespace_id(), kNamespace);
  EXPECT_EQ(info.name(), Queue().persistence_name);
  EXPECT_EQ(info.task_type(), 2);
  EXPECT_EQ(info.kind(), 2);
  EXPECT_EQ(info.approximate_backlog_count(), 5);
  EXPECT_EQ(info.expiry_time().seconds() - info.last_update_time().seconds(), 24 * 3600);
  ASSERT_EQ(info.subqueues_size(), 2);
  EXPECT_EQ(info.subqueues(1).key().priority(), 1);
}

TEST_P(TemporalStoreTest, ALeaseKeepsOwnerStateUnlessAnotherEngineWroteSince) {
  ASSERT_TRUE(Lease(1, false, "ours").ok());
  ASSERT_TRUE(Lease(2, true).ok());
  EXPECT_EQ(store_->ReadMetadata(Queue())->owner_state, "ours");
  const std::string table = GetParam() == TemporalTables::kFair ? "task_queues_v2" : "task_queues";
  Sql("UPDATE " + table + " SET range_id = 3");
  EXPECT_EQ(store_->ReadMetadata(Queue())->owner_state, "");
  ASSERT_TRUE(Lease(4, true).ok());
  EXPECT_EQ(store_->ReadMetadata(Queue())->owner_state, "");
  EXPECT_EQ(store_->ReadMetadata(Queue())->subqueues, Metadata(4, "").subqueues);
  ASSERT_TRUE(Lease(5, false, "again").ok());
  EXPECT_EQ(store_->ReadMetadata(Queue())->owner_state, "again");
}

}  // namespace
}  // namespace millrace::store
