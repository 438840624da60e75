// Rows that the persistence layer of Temporal's server 1.32.1 wrote, byte for byte; and owner
// states beside them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/store/postgres/temporal_layout.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::store {
namespace {

namespace pb = temporal::server::api::persistence::v1;

constexpr std::int64_t kSecond = 1'000'000'000;
const PhysicalQueueKey kQueue{"00112233-4455-6677-8899-aabbccddeeff", "/_sys/orders/3", 2};

std::string Bytes(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

// Partition 3 of the activity queue "orders".
constexpr std::string_view kQueueHead =
    "0a2430303131323233332d343435352d363637372d383839392d616162626363646465656666"
    "120e2f5f7379732f6f72646572732f331802";
constexpr std::string_view kTaskInfo =
    "0a2430303131323233332d343435352d363637372d383839392d616162626363646465656666"
    "120277661a017220052a060880e2cfaa06320608bce2cfaa06";

struct Golden {
  TemporalTables tables;
  std::string_view queue;  // Without the head.
  std::vector<SubqueueMetadata> subqueues;
  std::int64_t updated_ns;
  std::string_view task;  // Without the TaskInfo.
  TaskLevel level;
};
const Golden kGolden[] = {
    {TemporalTables::kClassic,
     "200128a48d063a0c08fd81bcd80610d480f7c602400c4a0a0a02080310a48d06180c4a0a0a02080110a08d0618015"
     "0"
     "01",
     {{{0, TaskId{100'004}}, 12}, {{0, TaskId{100'000}}, 1}},
     1'796'145'405'685'621'332,
     "10a58d06",
     {0, TaskId{100'005}}},
    {TemporalTables::kFair,
     "20013a0c08fd81bcd80610a9d1b5f402400c4a1d0a020803180c2206080510a48d062a06080910b48d0632050a016"
     "b"
     "10044a060a02080118015001",
     {{{5, TaskId{100'004}}, 12}, {{0, TaskId{0}}, 1}},
     1'796'145'405'781'019'305,
     "10a58d061805",
     {5, TaskId{100'005}}},
};

class GoldenRows : public ::testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Tables, GoldenRows, ::testing::ValuesIn(kGolden), [](const auto& p) {
  return p.param.tables == TemporalTables::kFair ? "Fair" : "Classic";
});

TEST_P(GoldenRows, LieWhereTemporalPutThem) {
  const auto layout = MakeTemporalLayout(GetParam().tables, nullptr);
  const RowLayout::Place place = *layout->PlaceOfQueue(kQueue);
  EXPECT_EQ(place.range_hash, 3'889'403'248);
  EXPECT_EQ(place.task_queue_id,
            Bytes("00112233445566778899aabbccddeeff2f5f7379732f6f72646572732f3302"));
  const RowLayout::Place tasks = layout->PlaceOfTasks(place, 1);
  EXPECT_EQ(tasks.range_hash, 1'402'763'318);
  EXPECT_EQ(tasks.task_queue_id,
            Bytes("00112233445566778899aabbccddeeff2f5f7379732f6f72646572732f338201"));
}

TEST_P(GoldenRows, AreReadAndWrittenAsTemporalWroteThem) {
  const Golden& golden = GetParam();
  const auto layout = MakeTemporalLayout(golden.tables, nullptr);
  const RowLayout::Place place = *layout->PlaceOfQueue(kQueue);
  const std::string queue = Bytes(std::string(kQueueHead) + std::string(golden.queue));
  const auto metadata = layout->DecodeQueue(place, {2, queue, "Proto3", {}, 0, 0});
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->subqueues, golden.subqueues);
  EXPECT_EQ(metadata->update_time.ns, golden.updated_ns);
  std::string written;
  layout->EncodeQueue(kQueue, place, *metadata, written);
  EXPECT_EQ(written, queue);

  const std::string task = Bytes("0a3f" + std::string(kTaskInfo) + std::string(golden.task));
  TaskRow row{{1, golden.level}, {}, {}, ""};
  ASSERT_TRUE(layout->DecodeTask(task, "Proto3", row).ok());
  EXPECT_EQ(row, (TaskRow{{1, golden.level},
                          WallTime{1'700'000'000 * kSecond},
                          WallTime{1'700'000'060 * kSecond},
                          Bytes(kTaskInfo)}));
  written.clear();
  ASSERT_TRUE(layout->EncodeTask(row, written).ok());
  EXPECT_EQ(written, task);
}

// Times that overflow when they are counted with.
TEST(TemporalRows, ImpossibleTimesAreNone) {
  const auto layout = MakeTemporalLayout(TemporalTables::kClassic, nullptr);
  const RowLayout::Place place = *layout->PlaceOfQueue(kQueue);
  struct Case {
    std::int64_t seconds;
    std::int32_t nanos;
  };
  for (const auto& [seconds, nanos] :
       {Case{9'223'372'036, 0}, Case{9'223'372'035, 1'000'000'000}, Case{9'223'372'035, INT32_MAX},
        Case{-1, 0}, Case{5, -1}, Case{INT64_MAX, INT32_MAX}, Case{INT64_MIN, INT32_MIN}}) {
    SCOPED_TRACE(seconds);
    pb::TaskInfo task;
    pb::TaskQueueInfo queue;
    for (auto* time : {task.mutable_create_time(), task.mutable_expiry_time(),
                       queue.mutable_expiry_time(), queue.mutable_last_update_time()}) {
      time->set_seconds(seconds);
      time->set_nanos(nanos);
    }
    pb::AllocatedTaskInfo allocated;
    task.SerializeToString(allocated.mutable_data());
    allocated.set_task_id(5);
    TaskRow row{{0, {0, TaskId{5}}}, WallTime{1}, WallTime{1}, ""};
    ASSERT_TRUE(layout->DecodeTask(allocated.SerializeAsString(), "Proto3", row).ok());
    EXPECT_EQ(row.create_time, WallTime{});
    EXPECT_EQ(row.expiry_time, WallTime{});
    std::string written;
    ASSERT_TRUE(layout->EncodeTask(row, written).ok());
    EXPECT_EQ(written, allocated.SerializeAsString());

    const std::string data = queue.SerializeAsString();
    auto metadata = layout->DecodeQueue(place, {2, data, "Proto3", {}, 0, 0});
    ASSERT_TRUE(metadata.ok());
    EXPECT_EQ(metadata->update_time, WallTime{});
    metadata->update_time = WallTime{1'700'000'000 * kSecond};
    layout->EncodeQueue(kQueue, place, *metadata, written);
    ASSERT_TRUE(queue.ParseFromString(written));
    EXPECT_FALSE(queue.has_expiry_time());
  }
  // From the last update, which says nothing, to the end of time.
  pb::TaskQueueInfo queue;
  queue.mutable_expiry_time()->set_seconds(9'223'372'035);
  const std::string data = queue.SerializeAsString();
  auto metadata = layout->DecodeQueue(place, {2, data, "Proto3", {}, 0, 0});
  metadata->update_time = WallTime{1'700'000'000 * kSecond};
  std::string written;
  layout->EncodeQueue(kQueue, place, *metadata, written);
  ASSERT_TRUE(queue.ParseFromString(written));
  EXPECT_FALSE(queue.has_expiry_time());
}

TEST(OwnerStateIn, IsThereOnlyBesideTheDataItWasWrittenWith) {
  const std::string stored = StatePrefix("data") + "state";
  EXPECT_EQ(stored, Bytes("02aed87dd1") + "state");
  EXPECT_EQ(OwnerStateIn(stored, "data"), "state");
  EXPECT_EQ(OwnerStateIn(stored, "datb"), std::nullopt);
  EXPECT_EQ(OwnerStateIn(StatePrefix("data"), "data"), "");
  EXPECT_EQ(OwnerStateIn("", "data"), "");
  for (std::size_t size = 1; size < 5; ++size) {
    EXPECT_EQ(OwnerStateIn(stored.substr(0, size), "data"), std::nullopt);
  }
  EXPECT_EQ(OwnerStateIn("\x01state", "data"), std::nullopt);
}

}  // namespace
}  // namespace millrace::store
