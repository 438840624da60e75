#include "millrace/store/contract_suite.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNoByteLimit = std::size_t{1} << 40;

PhysicalQueueKey Queue(std::string name = "q") { return {"ns", std::move(name), 0}; }

TaskKey Key(std::int64_t id, Subqueue subqueue = 0, std::int64_t pass = 0) {
  return {subqueue, {pass, TaskId{id}}};
}

TaskRow Row(TaskKey key, std::string payload = "p") {
  return {key, WallTime{1'000}, WallTime{}, std::move(payload)};
}

QueueMetadata Metadata(std::int64_t range_id, std::int64_t count = 0) {
  QueueMetadata metadata;
  metadata.range_id = RangeId{range_id};
  metadata.subqueues.push_back({TaskLevel{0, TaskId{7}}, count});
  metadata.update_time = WallTime{5'000};
  metadata.owner_state = "owner";
  return metadata;
}

// The write that takes the lease `range_id`.
QueueWrite Lease(const PhysicalQueueKey& queue, std::int64_t range_id) {
  QueueWrite write;
  write.queue = queue;
  write.expected_range_id = RangeId{range_id - 1};
  write.metadata = Metadata(range_id);
  return write;
}

QueueWrite Creates(const PhysicalQueueKey& queue, std::int64_t range_id,
                   const std::vector<TaskKey>& keys) {
  QueueWrite write;
  write.queue = queue;
  write.expected_range_id = RangeId{range_id};
  for (const TaskKey& key : keys) write.creates.push_back(Row(key));
  return write;
}

Status CommitOne(TaskStore& store, const QueueWrite& write) {
  std::vector<Status> results = store.Commit({&write, 1});
  EXPECT_EQ(results.size(), 1u);
  return results.at(0);
}

TaskPage AllTasks(TaskStore& store, const PhysicalQueueKey& queue, Subqueue subqueue = 0) {
  Result<TaskPage> page =
      store.ReadTasks(queue, subqueue, TaskLevel::Min(), TaskLevel::Max(), 1'000'000, kNoByteLimit);
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? *page : TaskPage{};
}

std::vector<std::int64_t> Ids(const TaskPage& page) {
  std::vector<std::int64_t> ids;
  for (const TaskRow& row : page.rows) ids.push_back(row.key.level.id.value);
  return ids;
}

std::vector<std::int64_t> AllIds(TaskStore& store, const PhysicalQueueKey& queue,
                                 Subqueue subqueue = 0) {
  return Ids(AllTasks(store, queue, subqueue));
}

std::vector<std::string> SideKeys(TaskStore& store, const PhysicalQueueKey& queue,
                                  std::string_view prefix = "", std::string_view after = "") {
  Result<SidePage> page = store.ReadSideRows(queue, prefix, after, 1'000);
  EXPECT_TRUE(page.ok()) << page.status();
  std::vector<std::string> keys;
  if (page.ok()) {
    for (const SideRow& row : page->rows) keys.push_back(row.key);
  }
  return keys;
}

std::vector<QueueEntry> ListAll(TaskStore& store, std::size_t limit) {
  std::vector<QueueEntry> all;
  std::string token;
  do {
    Result<QueuePage> page = store.ListQueues(token, limit);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    EXPECT_LE(page->queues.size(), limit);
    for (QueueEntry& entry : page->queues) all.push_back(std::move(entry));
    token = page->next_page_token;
  } while (!token.empty());
  return all;
}

using Longs = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

TEST_P(StoreContract, MetadataOfUnknownQueueIsNotFound) {
  EXPECT_EQ(store().ReadMetadata(Queue()).code(), StatusCode::kNotFound);
  EXPECT_TRUE(store().Health().ok());
}

TEST_P(StoreContract, MetadataComesBackAsWritten) {
  QueueWrite write = Lease(Queue(), 1);
  write.metadata->subqueues = {{{0, TaskId{-1}}, 0}, {{kMax64, TaskId{kMin64}}, kMax64}};
  write.metadata->owner_state = std::string("\0\xff state", 8);
  write.metadata->update_time = WallTime{-3};
  ASSERT_TRUE(CommitOne(store(), write).ok());
  Reopen();
  Result<QueueMetadata> read = store().ReadMetadata(Queue());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *write.metadata);
}

TEST_P(StoreContract, ADeletionTakesExactlyItsKeys) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("other"), 1)).ok());
  std::vector<TaskKey> keys;
  for (const Subqueue subqueue : {0, 1, 2}) {
    for (const std::int64_t pass : {0, 1}) {
      for (std::int64_t id = 1; id <= 12; ++id) keys.push_back(Key(id, subqueue, pass));
    }
  }
  keys.push_back(Key(kMin64, 0, 0));
  keys.push_back(Key(kMax64, 0, 0));
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, keys)).ok());
  ASSERT_TRUE(CommitOne(store(), Creates(Queue("other"), 1, keys)).ok());
  // With gaps, out of order, twice, absent, and next to each other across subqueues and passes.
  const std::set<TaskKey> gone = {
      Key(3),        Key(4),    Key(5),        Key(9),      Key(12),     Key(1, 0, 1), Key(2, 0, 1),
      Key(12, 0, 1), Key(1, 1), Key(11, 1, 1), Key(kMax64), Key(kMin64), Key(13, 2, 1)};
  for (const bool with_metadata : {false, true}) {
    QueueWrite write;
    write.queue = with_metadata ? Queue() : Queue("other");
    write.expected_range_id = RangeId{1};
    write.deletes.assign(gone.rbegin(), gone.rend());
    write.deletes.push_back(Key(4));
    write.creates = {Row(Key(5)), Row(Key(6), "again"), Row(Key(14))};
    if (with_metadata) write.metadata = Metadata(1);
    ASSERT_TRUE(CommitOne(store(), write).ok());
    std::set<TaskKey> expected(keys.begin(), keys.end());
    expected.insert(Key(14));
    for (const TaskKey& key : gone) expected.erase(key);
    std::set<TaskKey> left;
    for (const Subqueue subqueue : {0, 1, 2}) {
      for (const TaskRow& row : AllTasks(store(), write.queue, subqueue).rows) left.insert(row.key);
    }
    EXPECT_EQ(left, expected) << with_metadata;
  }
}

TEST_P(StoreContract, RangeIdsOfManyQueuesAreReadAtOnceEachOnItsOwn) {
  EXPECT_TRUE(store().ReadRangeIds({}).empty());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(CommitOne(store(), Lease(Queue("q" + std::to_string(i)), 1)).ok());
  }
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("q3"), 2)).ok());
  const std::vector<PhysicalQueueKey> queues = {Queue("q4"),   Queue("unknown"), Queue("q3"),
                                                {"ns", "", 0}, Queue("q3"),      Queue("q0")};
  const std::vector<Result<RangeId>> ids = store().ReadRangeIds(queues);
  ASSERT_EQ(ids.size(), queues.size());
  EXPECT_EQ(*ids[0], RangeId{1});
  EXPECT_EQ(ids[1].code(), StatusCode::kNotFound);
  EXPECT_EQ(*ids[2], RangeId{2});
  EXPECT_EQ(ids[3].code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*ids[4], RangeId{2});
  EXPECT_EQ(*ids[5], RangeId{1});
}

TEST_P(StoreContract, RangeIdZeroMeansTheQueueMustNotExist) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  EXPECT_EQ(CommitOne(store(), Lease(Queue(), 1)).code(), StatusCode::kFenced);
  Reopen();
  EXPECT_EQ(CommitOne(store(), Lease(Queue(), 1)).code(), StatusCode::kFenced);
}

TEST_P(StoreContract, RangeIdMustBeTheStoredOne) {
  EXPECT_EQ(CommitOne(store(), Creates(Queue(), 1, {Key(1)})).code(), StatusCode::kFenced);
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  EXPECT_EQ(CommitOne(store(), Creates(Queue(), 2, {Key(1)})).code(), StatusCode::kFenced);
  EXPECT_EQ(CommitOne(store(), Creates(Queue(), -1, {Key(1)})).code(), StatusCode::kFenced);
  EXPECT_TRUE(CommitOne(store(), Creates(Queue(), 1, {Key(2)})).ok());
  EXPECT_EQ(AllIds(store(), Queue()), Longs({2}));
}

TEST_P(StoreContract, RangeIdMayJumpAndGoBack) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite jump = Lease(Queue(), 2);
  jump.metadata->range_id = RangeId{kMax64};
  ASSERT_TRUE(CommitOne(store(), jump).ok());
  QueueWrite back = Lease(Queue(), 3);
  back.expected_range_id = RangeId{kMax64};
  ASSERT_TRUE(CommitOne(store(), back).ok());
  EXPECT_EQ(store().ReadMetadata(Queue())->range_id, RangeId{3});
}

TEST_P(StoreContract, ALeaseCanKeepWhatTheOwnerWrote) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite last = Creates(Queue(), 1, {Key(1)});
  last.metadata = Metadata(1, 42);
  last.metadata->owner_state = "last words";
  ASSERT_TRUE(CommitOne(store(), last).ok());
  QueueWrite lease = Lease(Queue(), 2);
  lease.keep_owner_state = true;
  lease.metadata->subqueues.clear();
  lease.metadata->owner_state = "must not be seen";
  lease.metadata->update_time = WallTime{9'000};
  ASSERT_TRUE(CommitOne(store(), lease).ok());
  QueueMetadata expected = *last.metadata;
  expected.range_id = RangeId{2};
  expected.update_time = WallTime{9'000};
  EXPECT_EQ(*store().ReadMetadata(Queue()), expected);
  EXPECT_EQ(CommitOne(store(), last).code(), StatusCode::kFenced);
  EXPECT_EQ(*store().ReadMetadata(Queue()), expected);
}

// The late write of the old owner and the lease of the new one meet: either both count, or the
// lease says that it did not happen.
TEST_P(StoreContract, ALeaseNeverLosesAWriteOfTheSameCommit) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite last = Creates(Queue(), 1, {Key(1)});
  last.metadata = Metadata(1, 42);
  QueueWrite lease = Lease(Queue(), 2);
  lease.keep_owner_state = true;
  const std::vector<QueueWrite> both = {last, lease};
  const std::vector<Status> results = store().Commit(both);
  EXPECT_TRUE(results.at(0).ok());
  EXPECT_EQ(store().ReadMetadata(Queue())->subqueues[0].approximate_count, 42);
  if (results.at(1).ok()) {
    EXPECT_EQ(store().ReadMetadata(Queue())->range_id, RangeId{2});
  } else {
    EXPECT_EQ(results.at(1).code(), StatusCode::kUnavailable);
    EXPECT_TRUE(CommitOne(store(), lease).ok());
  }
  EXPECT_EQ(store().ReadMetadata(Queue())->subqueues[0].approximate_count, 42);
}

TEST_P(StoreContract, OnlyAnExistingQueueHasOwnerStateToKeep) {
  QueueWrite lease = Lease(Queue(), 1);
  lease.keep_owner_state = true;
  EXPECT_EQ(CommitOne(store(), lease).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite no_metadata = Creates(Queue(), 1, {Key(1)});
  no_metadata.keep_owner_state = true;
  EXPECT_EQ(CommitOne(store(), no_metadata).code(), StatusCode::kInvalidArgument);
}

TEST_P(StoreContract, CreatingWithoutMetadataIsRefused) {
  EXPECT_EQ(CommitOne(store(), Creates(Queue(), 0, {Key(1)})).code(), StatusCode::kInvalidArgument);
  QueueWrite zero = Lease(Queue(), 1);
  zero.metadata->range_id = RangeId{0};
  EXPECT_EQ(CommitOne(store(), zero).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store().ReadMetadata(Queue()).code(), StatusCode::kNotFound);
}

TEST_P(StoreContract, EmptyCommitDoesNothing) { EXPECT_TRUE(store().Commit({}).empty()); }

TEST_P(StoreContract, OneWriteIsAllOrNothing) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite first = Creates(Queue(), 1, {Key(1), Key(2)});
  first.side_puts = {{"a", "1"}, {"b", "2"}};
  first.metadata = Metadata(1, 2);
  ASSERT_TRUE(CommitOne(store(), first).ok());

  QueueWrite second = Creates(Queue(), 1, {Key(3)});
  second.deletes = {Key(1)};
  second.side_puts = {{"c", "3"}};
  second.side_deletes = {"a"};
  second.metadata = Metadata(1, 99);
  QueueWrite refused = second;
  refused.expected_range_id = RangeId{5};
  ASSERT_EQ(CommitOne(store(), refused).code(), StatusCode::kFenced);
  EXPECT_EQ(AllIds(store(), Queue()), Longs({1, 2}));
  EXPECT_EQ(SideKeys(store(), Queue()), Strings({"a", "b"}));
  EXPECT_EQ(store().ReadMetadata(Queue())->subqueues[0].approximate_count, 2);

  ASSERT_TRUE(CommitOne(store(), second).ok());
  Reopen();
  EXPECT_EQ(AllIds(store(), Queue()), Longs({2, 3}));
  EXPECT_EQ(SideKeys(store(), Queue()), Strings({"b", "c"}));
  EXPECT_EQ(store().ReadMetadata(Queue())->subqueues[0].approximate_count, 99);
}

TEST_P(StoreContract, TaskRowsComeBackAsWritten) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {});
  write.creates.push_back({Key(1), WallTime{}, WallTime{}, ""});
  write.creates.push_back({Key(2), WallTime{kMax64}, WallTime{1}, std::string("\0\0", 2)});
  write.creates.push_back({Key(3), WallTime{-5}, WallTime{kMin64}, std::string(300, '\xff')});
  ASSERT_TRUE(CommitOne(store(), write).ok());
  Reopen();
  EXPECT_EQ(AllTasks(store(), Queue()).rows, write.creates);
}

TEST_P(StoreContract, RelaxedWritesAreVisibleAndOutliveACleanStop) {
  QueueWrite lease = Lease(Queue(), 1);
  lease.durability = Durability::kRelaxed;
  ASSERT_TRUE(CommitOne(store(), lease).ok());
  QueueWrite write = Creates(Queue(), 1, {Key(1)});
  write.durability = Durability::kRelaxed;
  ASSERT_TRUE(CommitOne(store(), write).ok());
  EXPECT_EQ(AllIds(store(), Queue()), Longs({1}));
  Reopen();
  EXPECT_EQ(AllIds(store(), Queue()), Longs({1}));
}

TEST_P(StoreContract, DeletingWhatIsNotThereIsFine) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {});
  write.deletes = {Key(1), Key(kMin64), Key(2)};
  write.side_deletes = {"nothing"};
  EXPECT_TRUE(CommitOne(store(), write).ok());
}

TEST_P(StoreContract, KeyCreatedAndDeletedInOneWriteEndsAbsent) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {Key(1), Key(2)});
  write.deletes = {Key(1)};
  ASSERT_TRUE(CommitOne(store(), write).ok());
  EXPECT_EQ(AllIds(store(), Queue()), Longs({2}));
}

TEST_P(StoreContract, SideDeletesApplyBeforeSidePuts) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {});
  write.side_puts = {{"k", "new"}};
  write.side_deletes = {"k"};
  ASSERT_TRUE(CommitOne(store(), write).ok());
  EXPECT_EQ(SideKeys(store(), Queue()), Strings({"k"}));
}

TEST_P(StoreContract, WritesOfOneQueueInOneCommitApplyInOrder) {
  std::vector<QueueWrite> writes;
  writes.push_back(Lease(Queue(), 1));
  writes.push_back(Creates(Queue(), 1, {Key(1)}));
  writes.push_back(Lease(Queue(), 2));
  writes.push_back(Creates(Queue(), 1, {Key(2)}));  // The old owner, now fenced.
  writes.push_back(Creates(Queue(), 2, {Key(3)}));
  writes.back().deletes = {Key(1)};
  const std::vector<Status> results = store().Commit(writes);
  ASSERT_EQ(results.size(), 5u);
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_TRUE(results[1].ok()) << results[1];
  EXPECT_TRUE(results[2].ok()) << results[2];
  EXPECT_EQ(results[3].code(), StatusCode::kFenced);
  EXPECT_TRUE(results[4].ok()) << results[4];
  EXPECT_EQ(AllIds(store(), Queue()), Longs({3}));
  Reopen();
  EXPECT_EQ(AllIds(store(), Queue()), Longs({3}));
  EXPECT_EQ(store().ReadMetadata(Queue())->range_id, RangeId{2});
}

TEST_P(StoreContract, AFailingWriteDoesNotTouchItsNeighbours) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("a"), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("b"), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("c"), 1)).ok());
  std::vector<QueueWrite> writes;
  writes.push_back(Creates(Queue("a"), 1, {Key(1)}));
  writes.push_back(Creates(Queue("b"), 9, {Key(1)}));
  writes.push_back(Creates(Queue("c"), 1, {Key(1)}));
  writes.push_back(Creates(Queue("c"), 1, {Key(2)}));
  writes.back().creates[0].payload.resize(kValueBytesMax + 1);
  writes.push_back(Creates(PhysicalQueueKey{"ns", "", 0}, 1, {Key(1)}));
  writes.push_back(Creates(Queue("c"), 1, {Key(3)}));
  const std::vector<Status> results = store().Commit(writes);
  ASSERT_EQ(results.size(), 6u);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].code(), StatusCode::kFenced);
  EXPECT_TRUE(results[2].ok());
  EXPECT_EQ(results[3].code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(results[4].code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(results[5].ok());
  EXPECT_EQ(AllIds(store(), Queue("a")), Longs({1}));
  EXPECT_EQ(AllIds(store(), Queue("b")), Longs());
  EXPECT_EQ(AllIds(store(), Queue("c")), Longs({1, 3}));
}

TEST_P(StoreContract, PagesByLimit) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  std::vector<TaskKey> keys;
  for (int id = 1; id <= 10; ++id) keys.push_back(Key(id));
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, keys)).ok());
  Longs seen;
  TaskLevel from = TaskLevel::Min();
  int pages = 0;
  for (bool more = true; more; ++pages) {
    Result<TaskPage> page = store().ReadTasks(Queue(), 0, from, TaskLevel::Max(), 3, kNoByteLimit);
    ASSERT_TRUE(page.ok());
    ASSERT_FALSE(page->rows.empty());
    ASSERT_LE(page->rows.size(), 3u);
    for (std::int64_t id : Ids(*page)) seen.push_back(id);
    from = {0, TaskId{seen.back() + 1}};
    more = page->more;
    ASSERT_LT(pages, 10);
  }
  EXPECT_EQ(seen, Longs({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(pages, 4);
}

TEST_P(StoreContract, PagesByBytesButNeverEmpty) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {Key(1), Key(2), Key(3), Key(4)});
  for (TaskRow& row : write.creates) row.payload.assign(100, 'x');
  ASSERT_TRUE(CommitOne(store(), write).ok());
  const auto read = [&](std::size_t bytes) {
    return *store().ReadTasks(Queue(), 0, TaskLevel::Min(), TaskLevel::Max(), 100, bytes);
  };
  EXPECT_EQ(Ids(read(0)), Longs({1}));
  EXPECT_TRUE(read(0).more);
  EXPECT_EQ(Ids(read(199)), Longs({1}));
  EXPECT_EQ(Ids(read(200)), Longs({1, 2}));
  EXPECT_EQ(Ids(read(399)), Longs({1, 2, 3}));
  EXPECT_TRUE(read(399).more);
  EXPECT_EQ(Ids(read(400)), Longs({1, 2, 3, 4}));
}

TEST_P(StoreContract, NothingLeftMeansNotMore) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, {Key(1), Key(2), Key(9)})).ok());
  // `more` may be a false alarm only when a page stopped at a limit.
  Result<TaskPage> page =
      store().ReadTasks(Queue(), 0, TaskLevel::Min(), {0, TaskId{5}}, 100, kNoByteLimit);
  EXPECT_EQ(Ids(*page), Longs({1, 2}));
  EXPECT_FALSE(page->more);
  page = store().ReadTasks(Queue("unknown"), 0, TaskLevel::Min(), TaskLevel::Max(), 1, 1);
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->rows.empty());
  EXPECT_FALSE(page->more);
}

TEST_P(StoreContract, BoundsAreInclusiveAndMayBeEmpty) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, {Key(1), Key(2), Key(3)})).ok());
  const auto read = [&](std::int64_t from, std::int64_t through) {
    return Ids(
        *store().ReadTasks(Queue(), 0, {0, TaskId{from}}, {0, TaskId{through}}, 100, kNoByteLimit));
  };
  EXPECT_EQ(read(1, 3), Longs({1, 2, 3}));
  EXPECT_EQ(read(2, 2), Longs({2}));
  EXPECT_EQ(read(0, 1), Longs({1}));
  EXPECT_EQ(read(4, 9), Longs());
  EXPECT_EQ(read(3, 1), Longs());
}

TEST_P(StoreContract, OrderIsByPassThenId) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  std::vector<TaskKey> keys;
  for (std::int64_t pass : {kMin64, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, kMax64}) {
    for (std::int64_t id : {kMin64, std::int64_t{-256}, std::int64_t{-1}, std::int64_t{0},
                            std::int64_t{255}, std::int64_t{256}, kMax64}) {
      keys.push_back(Key(id, 0, pass));
    }
  }
  std::vector<TaskKey> shuffled(keys.rbegin(), keys.rend());
  std::swap(shuffled[3], shuffled[20]);
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, shuffled)).ok());
  Reopen();
  std::vector<TaskKey> read;
  for (const TaskRow& row : AllTasks(store(), Queue()).rows) read.push_back(row.key);
  EXPECT_EQ(read, keys);
  // Every bound cuts where the order says.
  for (const TaskKey& bound : keys) {
    const auto count = static_cast<std::size_t>(
        std::count_if(keys.begin(), keys.end(), [&](const TaskKey& k) { return k <= bound; }));
    EXPECT_EQ(store()
                  .ReadTasks(Queue(), 0, TaskLevel::Min(), bound.level, 100, kNoByteLimit)
                  ->rows.size(),
              count);
    EXPECT_EQ(store()
                  .ReadTasks(Queue(), 0, bound.level, TaskLevel::Max(), 100, kNoByteLimit)
                  ->rows.size(),
              keys.size() - count + 1);
  }
}

TEST_P(StoreContract, SubqueuesAreApart) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  constexpr Subqueue kLast = std::numeric_limits<Subqueue>::max();
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1,
                                         {Key(1, 0), Key(2, 1), Key(3, 256), Key(4, kLast),
                                          Key(kMax64, 0, kMax64)}))
                  .ok());
  EXPECT_EQ(AllIds(store(), Queue(), 0), Longs({1, kMax64}));
  EXPECT_EQ(AllIds(store(), Queue(), 1), Longs({2}));
  EXPECT_EQ(AllIds(store(), Queue(), 2), Longs());
  EXPECT_EQ(AllIds(store(), Queue(), 256), Longs({3}));
  EXPECT_EQ(AllIds(store(), Queue(), kLast), Longs({4}));
  EXPECT_EQ(*store().DeleteTasksThrough(Queue(), 0, TaskLevel::Max(), 100),
            std::optional<std::int64_t>(2));
  EXPECT_EQ(AllIds(store(), Queue(), 0), Longs());
  EXPECT_EQ(AllIds(store(), Queue(), 1), Longs({2}));
}

TEST_P(StoreContract, RangeDeletesCountFromTheLowest) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(
      CommitOne(store(), Creates(Queue(), 1, {Key(-4), Key(2), Key(3), Key(5), Key(8)})).ok());
  const auto through = [&](std::int64_t id, std::size_t limit) {
    Result<std::optional<std::int64_t>> deleted =
        store().DeleteTasksThrough(Queue(), 0, {0, TaskId{id}}, limit);
    EXPECT_TRUE(deleted.ok()) << deleted.status();
    return deleted.ok() ? *deleted : std::nullopt;
  };
  if (!store().traits().counts_deletes) {
    EXPECT_EQ(through(5, 2), std::nullopt);
    EXPECT_EQ(AllIds(store(), Queue()), Longs({8}));
    return;
  }
  EXPECT_EQ(through(5, 2), 2);
  EXPECT_EQ(AllIds(store(), Queue()), Longs({3, 5, 8}));
  EXPECT_EQ(through(5, 100), 2);
  EXPECT_EQ(through(5, 100), 0);
  EXPECT_EQ(AllIds(store(), Queue()), Longs({8}));
  // A row that comes in below what was already deleted is a row like any other.
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, {Key(1), Key(6)})).ok());
  EXPECT_EQ(AllIds(store(), Queue()), Longs({1, 6, 8}));
  EXPECT_EQ(through(7, 100), 2);
  EXPECT_EQ(through(8, 100), 1);
  EXPECT_EQ(AllIds(store(), Queue()), Longs());
  EXPECT_EQ(*store().DeleteTasksThrough(Queue("unknown"), 0, TaskLevel::Max(), 1),
            std::optional<std::int64_t>(0));
  Reopen();
  EXPECT_EQ(AllIds(store(), Queue()), Longs());
}

TEST_P(StoreContract, LimitZeroIsRefused) {
  EXPECT_EQ(store().ReadTasks(Queue(), 0, TaskLevel::Min(), TaskLevel::Max(), 0, 1).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(store().DeleteTasksThrough(Queue(), 0, TaskLevel::Max(), 0).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(store().ReadSideRows(Queue(), "", "", 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store().ListQueues("", 0).code(), StatusCode::kInvalidArgument);
}

// Names chosen so that joining, terminating or escaping them carelessly makes two of them meet.
std::vector<PhysicalQueueKey> NastyQueues() {
  using std::string;
  return {{"", "q", 0},
          {"n", "q", 0},
          {"n", "q", 1},
          {"n", "q", 255},
          {"n", "qq", 0},
          {"nq", "q", 0},
          {"n", string("q\0", 2), 0},
          {"n", string("q\0\0", 3), 0},
          {"n", string("\0q", 2), 0},
          {string("n\0", 2), "q", 0},
          {"n", "\xff", 0},
          {"n", "\xff\xff", 0},
          {"n", "q\x01", 0},
          {string(255, 'n'), string(1000, 'q'), 0},
          {string(255, 'n'), string(999, 'q'), 0}};
}

TEST_P(StoreContract, QueuesNeverMixWhateverTheirNames) {
  const std::vector<PhysicalQueueKey> queues = NastyQueues();
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const auto range_id = static_cast<std::int64_t>(i) + 1;
    QueueWrite lease = Lease(queues[i], 1);
    lease.metadata->range_id = RangeId{range_id};
    lease.creates.push_back(Row(Key(range_id)));
    lease.side_puts.push_back({"side" + std::to_string(range_id), "v"});
    ASSERT_TRUE(CommitOne(store(), lease).ok()) << i;
  }
  Reopen();
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const auto range_id = static_cast<std::int64_t>(i) + 1;
    EXPECT_EQ(store().ReadMetadata(queues[i])->range_id, RangeId{range_id});
    EXPECT_EQ(AllIds(store(), queues[i]), Longs({range_id}));
    EXPECT_EQ(SideKeys(store(), queues[i]), Strings({"side" + std::to_string(range_id)}));
  }
  for (std::size_t i = 0; i < queues.size(); i += 2) {
    ASSERT_TRUE(store().DeleteQueue(queues[i], RangeId{static_cast<std::int64_t>(i) + 1}).ok());
  }
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const bool deleted = i % 2 == 0;
    EXPECT_EQ(AllIds(store(), queues[i]).size(), deleted ? 0u : 1u) << i;
    EXPECT_EQ(SideKeys(store(), queues[i]).size(), deleted ? 0u : 1u) << i;
    EXPECT_EQ(store().ReadMetadata(queues[i]).ok(), !deleted) << i;
  }
}

TEST_P(StoreContract, ListsEveryQueueOnce) {
  EXPECT_TRUE(ListAll(store(), 10).empty());
  std::vector<PhysicalQueueKey> queues = NastyQueues();
  for (std::size_t i = 0; i < queues.size(); ++i) {
    QueueWrite lease = Lease(queues[i], 1);
    lease.metadata->subqueues[0].approximate_count = static_cast<std::int64_t>(i);
    lease.creates.push_back(Row(Key(1)));
    ASSERT_TRUE(CommitOne(store(), lease).ok());
  }
  std::sort(queues.begin(), queues.end());
  for (std::size_t limit : {std::size_t{1}, std::size_t{2}, queues.size(), queues.size() + 1}) {
    std::vector<PhysicalQueueKey> listed;
    for (const QueueEntry& entry : ListAll(store(), limit)) {
      EXPECT_EQ(entry.metadata, *store().ReadMetadata(entry.key));
      listed.push_back(entry.key);
    }
    std::sort(listed.begin(), listed.end());
    EXPECT_EQ(listed, queues) << "limit " << limit;
  }
}

TEST_P(StoreContract, ListTokensSurviveDeletionsAndRestart) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(CommitOne(store(), Lease(Queue(name), 1)).ok());
  }
  Result<QueuePage> first = store().ListQueues("", 2);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->queues.size(), 2u);
  ASSERT_FALSE(first->next_page_token.empty());
  ASSERT_TRUE(store().DeleteQueue(first->queues[1].key, RangeId{1}).ok());
  Reopen();
  Result<QueuePage> second = store().ListQueues(first->next_page_token, 10);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->queues.size(), 2u);
  EXPECT_TRUE(second->next_page_token.empty());
}

TEST_P(StoreContract, BadListTokensAreRefused) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("a"), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Lease(Queue("b"), 1)).ok());
  const std::string good = store().ListQueues("", 1)->next_page_token;
  ASSERT_FALSE(good.empty());
  for (const std::string& bad :
       {std::string("x"), std::string(1, '\0'), good + "00", good.substr(0, good.size() - 1),
        "x" + good, std::string(5'000, 'f')}) {
    EXPECT_EQ(store().ListQueues(bad, 1).code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST_P(StoreContract, DeleteQueueNeedsTheRightRangeId) {
  EXPECT_EQ(store().DeleteQueue(Queue(), RangeId{1}).code(), StatusCode::kNotFound);
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 2)).ok());
  std::vector<TaskKey> keys;
  for (int id = 1; id <= 3'000; ++id) keys.push_back(Key(id, id % 3));
  QueueWrite write = Creates(Queue(), 2, keys);
  write.side_puts = {{"s", "1"}};
  ASSERT_TRUE(CommitOne(store(), write).ok());
  EXPECT_EQ(store().DeleteQueue(Queue(), RangeId{1}).code(), StatusCode::kFenced);
  EXPECT_EQ(AllIds(store(), Queue(), 0).size(), 1'000u);
  EXPECT_TRUE(store().DeleteQueue(Queue(), RangeId{2}).ok());
  for (int reopened = 0; reopened < 2; ++reopened) {
    EXPECT_EQ(store().ReadMetadata(Queue()).code(), StatusCode::kNotFound);
    for (Subqueue subqueue = 0; subqueue < 3; ++subqueue) {
      EXPECT_EQ(AllIds(store(), Queue(), subqueue), Longs());
    }
    EXPECT_EQ(SideKeys(store(), Queue()), Strings());
    EXPECT_TRUE(ListAll(store(), 10).empty());
    Reopen();
  }
  // Its name is free again, and its old owner stays fenced.
  EXPECT_EQ(CommitOne(store(), Creates(Queue(), 2, {Key(1)})).code(), StatusCode::kFenced);
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  ASSERT_TRUE(CommitOne(store(), Creates(Queue(), 1, {Key(5)})).ok());
  EXPECT_EQ(AllIds(store(), Queue()), Longs({5}));
}

TEST_P(StoreContract, SideRowsByPrefixAndAfter) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {});
  const std::string high(255, '\xff');
  for (const std::string& key :
       {std::string("a"), std::string("ab"), std::string("ab\0", 3), std::string("abc"),
        std::string("b"), std::string("b\xff"), std::string("c"), high}) {
    write.side_puts.push_back({key, "v" + key});
  }
  ASSERT_TRUE(CommitOne(store(), write).ok());
  EXPECT_EQ(SideKeys(store(), Queue()).size(), 8u);
  EXPECT_EQ(SideKeys(store(), Queue(), "ab"), Strings({"ab", std::string("ab\0", 3), "abc"}));
  EXPECT_EQ(SideKeys(store(), Queue(), "ab", "ab"), Strings({std::string("ab\0", 3), "abc"}));
  EXPECT_EQ(SideKeys(store(), Queue(), "ab", "abb"), Strings({"abc"}));
  EXPECT_EQ(SideKeys(store(), Queue(), "ab", "abc"), Strings());
  EXPECT_EQ(SideKeys(store(), Queue(), "ab", "b"), Strings());
  EXPECT_EQ(SideKeys(store(), Queue(), "b", "a"), Strings({"b", "b\xff"}));
  EXPECT_EQ(SideKeys(store(), Queue(), "", "b"), Strings({"b\xff", "c", high}));
  EXPECT_EQ(SideKeys(store(), Queue(), "\xff"), Strings({high}));
  EXPECT_EQ(SideKeys(store(), Queue(), high), Strings({high}));
  EXPECT_EQ(SideKeys(store(), Queue(), "zz"), Strings());
  EXPECT_EQ(SideKeys(store(), Queue("unknown")), Strings());
  Result<SidePage> page = store().ReadSideRows(Queue(), "a", "", 3);
  EXPECT_EQ(page->rows.size(), 3u);
  EXPECT_TRUE(page->more);
  EXPECT_EQ(page->rows[1], (SideRow{"ab", "vab"}));
  page = store().ReadSideRows(Queue(), "a", page->rows[2].key, 3);
  EXPECT_EQ(page->rows.size(), 1u);
  EXPECT_FALSE(page->more);
}

TEST_P(StoreContract, SideRowsAreReplaced) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  for (const char* value : {"one", "two", ""}) {
    QueueWrite write = Creates(Queue(), 1, {});
    write.side_puts = {{"k", value}};
    ASSERT_TRUE(CommitOne(store(), write).ok());
    EXPECT_EQ(store().ReadSideRows(Queue(), "", "", 10)->rows[0].value, value);
  }
}

TEST_P(StoreContract, SizesAtAndOverTheLimit) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite write = Creates(Queue(), 1, {Key(1)});
  write.creates[0].payload.assign(kValueBytesMax, 'x');
  ASSERT_TRUE(CommitOne(store(), write).ok());
  Result<TaskPage> page = store().ReadTasks(Queue(), 0, TaskLevel::Min(), TaskLevel::Max(), 1, 1);
  ASSERT_EQ(page->rows.size(), 1u);
  EXPECT_TRUE(page->rows[0].payload == write.creates[0].payload);

  write.creates[0].payload.push_back('x');
  EXPECT_EQ(CommitOne(store(), write).code(), StatusCode::kInvalidArgument);
  QueueWrite side = Creates(Queue(), 1, {});
  side.side_puts = {{"k", std::string(kValueBytesMax + 1, 'x')}};
  EXPECT_EQ(CommitOne(store(), side).code(), StatusCode::kInvalidArgument);
  side.side_puts = {{"", "v"}};
  EXPECT_EQ(CommitOne(store(), side).code(), StatusCode::kInvalidArgument);
  side.side_puts = {{std::string(256, 'k'), "v"}};
  EXPECT_EQ(CommitOne(store(), side).code(), StatusCode::kInvalidArgument);
  side.side_puts.clear();
  side.side_deletes = {""};
  EXPECT_EQ(CommitOne(store(), side).code(), StatusCode::kInvalidArgument);
  QueueWrite state = Lease(Queue(), 2);
  state.metadata->owner_state.assign(kOwnerStateBytesMax + 1, 's');
  EXPECT_EQ(CommitOne(store(), state).code(), StatusCode::kInvalidArgument);
  state.metadata->owner_state.pop_back();
  EXPECT_TRUE(CommitOne(store(), state).ok());
  EXPECT_EQ(CommitOne(store(), Lease(PhysicalQueueKey{std::string(256, 'n'), "q", 0}, 1)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CommitOne(store(), Lease(Queue(std::string(1'001, 'q')), 1)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(store().ReadMetadata(Queue("")).code(), StatusCode::kInvalidArgument);
}

// The lease is stolen while the old owner has a write on its way: the old owner changes nothing any
// more.
TEST_P(StoreContract, TwoOwnersOnlyTheLastOneWrites) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  QueueWrite late = Creates(Queue(), 1, {Key(1)});
  late.metadata = Metadata(1, 1);
  late.side_puts = {{"old", "1"}};

  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 2)).ok());
  EXPECT_EQ(CommitOne(store(), Lease(Queue(), 2)).code(), StatusCode::kFenced);
  EXPECT_EQ(CommitOne(store(), late).code(), StatusCode::kFenced);
  EXPECT_TRUE(AllIds(store(), Queue()).empty());
  EXPECT_TRUE(SideKeys(store(), Queue()).empty());
  EXPECT_EQ(store().ReadMetadata(Queue())->range_id, RangeId{2});
  EXPECT_EQ(store().DeleteQueue(Queue(), RangeId{1}).code(), StatusCode::kFenced);
  EXPECT_TRUE(CommitOne(store(), Creates(Queue(), 2, {Key(1)})).ok());
}

TEST_P(StoreContract, TwoOwnersRaceInOneCommit) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  std::vector<QueueWrite> writes = {Lease(Queue(), 2), Lease(Queue(), 2)};
  writes[0].creates.push_back(Row(Key(1), "first"));
  writes[1].creates.push_back(Row(Key(1), "second"));
  const std::vector<Status> results = store().Commit(writes);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].code(), StatusCode::kFenced);
  EXPECT_EQ(AllTasks(store(), Queue()).rows.at(0).payload, "first");
}

TEST_P(StoreContract, ManyRowsComeAndGo) {
  ASSERT_TRUE(CommitOne(store(), Lease(Queue(), 1)).ok());
  constexpr int kBatch = 64;
  for (int batch = 0; batch < 200; ++batch) {
    QueueWrite write = Creates(Queue(), 1, {});
    for (int i = 0; i < kBatch; ++i) write.creates.push_back(Row(Key(batch * kBatch + i)));
    if (batch > 0) {
      for (int i = 0; i < kBatch; ++i) write.deletes.push_back(Key((batch - 1) * kBatch + i));
    }
    write.durability = Durability::kRelaxed;
    ASSERT_TRUE(CommitOne(store(), write).ok());
  }
  Reopen();
  const Longs left = AllIds(store(), Queue());
  ASSERT_EQ(left.size(), static_cast<std::size_t>(kBatch));
  EXPECT_EQ(left.front(), 199 * kBatch);
}

}  // namespace
}  // namespace millrace::store
