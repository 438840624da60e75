#include "millrace/backlog/ledger.h"

#include <gtest/gtest.h>

#include "millrace/backlog/loaded_buffer.h"

namespace millrace::backlog {
namespace {

store::QueueMetadata Blank(const Ledger& ledger) {
  store::QueueMetadata metadata;
  metadata.subqueues.resize(ledger.subqueues());
  return metadata;
}

// Golden vector: the stored form must never change for one format byte.
TEST(OwnerState, HasItsDocumentedBytes) {
  OwnerState state;
  state.nonce = 0x0102030405060708;
  state.write_seq = 300;
  state.range_size = 100'000;
  At(state.totals, Total::kAccepted) = 1'000'000;
  At(state.totals, Total::kDone) = 64;
  At(state.totals, Total::kDead) = 1;
  At(state.totals, Total::kDroppedInvalid) = -1;
  const std::string bytes = EncodeOwnerState(state);
  EXPECT_EQ(bytes, std::string("\x01\x01\x02\x03\x04\x05\x06\x07\x08\xAC\x02\xA0\x8D\x06\x05"
                               "\x80\x89\x7A\x80\x01\x02\x00\x01",
                               23));
  EXPECT_EQ(*DecodeOwnerState(bytes), state);
}

TEST(OwnerState, RefusesEveryTornOrAlteredLength) {
  OwnerState state;
  state.range_size = 5;
  const std::string bytes = EncodeOwnerState(state);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeOwnerState(bytes.substr(0, size)).code(), StatusCode::kCorruption) << size;
  }
  EXPECT_EQ(DecodeOwnerState(bytes + "x").code(), StatusCode::kCorruption);
  EXPECT_EQ(DecodeOwnerState("\x02" + bytes.substr(1)).code(), StatusCode::kCorruption);
  EXPECT_TRUE(DecodeOwnerState("").ok());
}

TEST(Ledger, StoresWhatTheSameWriteChanges) {
  Ledger ledger(1, 10);
  ledger.EnsureSubqueues(2);
  ledger.BeginWrite();
  ledger.AddCreated(0, 5);
  ledger.AddCreated(1, 2);
  ledger.AddTotal(Total::kAccepted, 7);
  EXPECT_EQ(ledger.Count(0), 5);  // Before it is sent.
  store::QueueMetadata metadata = Blank(ledger);
  EXPECT_EQ(ledger.FinishWrite(metadata), 1u);
  EXPECT_EQ(metadata.subqueues[0].approximate_count, 5);
  EXPECT_EQ(At(ledger.totals(), Total::kAccepted), 0);  // Not certain yet.
  ledger.Applied();
  EXPECT_EQ(At(ledger.totals(), Total::kAccepted), 7);
  ledger.BeginWrite();
  ledger.AddDeleted(0, 5);
  metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  EXPECT_EQ(metadata.subqueues[0].approximate_count, 0);
  EXPECT_EQ(ledger.Count(0), 5);  // Deleted rows count until that is certain.
  ledger.Refused();
  EXPECT_EQ(ledger.Count(0), 5);
  EXPECT_EQ(ledger.TotalCount(), 7);
}

TEST(Ledger, ChangesOfMemorySurviveARefusedWrite) {
  Ledger ledger(1, 10);
  ledger.EnsureSubqueues(1);
  ledger.BeginWrite();
  ledger.AddCreated(0, 3);
  ledger.AddTotal(Total::kAccepted, 3);
  store::QueueMetadata metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  ledger.Applied();
  ledger.Ack(0, {.count = 2, .dropped = 1});
  ledger.BeginWrite();
  metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  EXPECT_EQ(metadata.subqueues[0].approximate_count, 1);
  ledger.Ack(0, {.count = 1, .dropped = 0});
  ledger.Refused();
  EXPECT_EQ(ledger.Count(0), 0);
  ledger.BeginWrite();
  metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  EXPECT_EQ(metadata.subqueues[0].approximate_count, 0);
  const Totals totals = DecodeOwnerState(metadata.owner_state)->totals;
  EXPECT_EQ(At(totals, Total::kDone), 2);
  EXPECT_EQ(At(totals, Total::kDroppedExpired), 1);
}

// An unknown outcome, decided both ways.
TEST(Ledger, IsDecidedByWhatIsReadBack) {
  for (const bool applied : {false, true}) {
    Ledger ledger(7, 10);
    ledger.EnsureSubqueues(1);
    ledger.BeginWrite();
    ledger.AddCreated(0, 1);
    store::QueueMetadata first = Blank(ledger);
    ledger.FinishWrite(first);
    ledger.Applied();
    ledger.BeginWrite();
    ledger.AddCreated(0, 2);
    ledger.AddTotal(Total::kAccepted, 2);
    store::QueueMetadata second = Blank(ledger);
    ledger.FinishWrite(second);
    EXPECT_EQ(ledger.Count(0), 3);
    const store::QueueMetadata& stored = applied ? second : first;
    const OwnerState state = *DecodeOwnerState(stored.owner_state);
    EXPECT_EQ(ledger.WroteSent(state), applied);
    ledger.Decided(applied, stored, state);
    EXPECT_EQ(ledger.Count(0), applied ? 3 : 1);
    EXPECT_EQ(At(ledger.totals(), Total::kAccepted), applied ? 2 : 0);
  }
}

TEST(Ledger, AnotherOwnersWriteOfTheSameNumberIsNotOurs) {
  Ledger ledger(7, 10);
  ledger.EnsureSubqueues(1);
  ledger.BeginWrite();
  store::QueueMetadata metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  EXPECT_FALSE(ledger.WroteSent({.nonce = 8, .write_seq = 1, .range_size = 10}));
}

TEST(Ledger, NeverStoresACountBelowZero) {
  Ledger ledger(1, 10);
  ledger.EnsureSubqueues(1);
  ledger.Ack(0, {.count = 4, .dropped = 0});
  EXPECT_EQ(ledger.Count(0), 0);
  ledger.BeginWrite();
  store::QueueMetadata metadata = Blank(ledger);
  ledger.FinishWrite(metadata);
  EXPECT_EQ(metadata.subqueues[0].approximate_count, 0);
}

LoadedTask Task(std::int64_t id, std::string payload = "12") {
  return {{0, {0, TaskId{id}}}, {}, {}, std::move(payload)};
}

// All ways to take some of five tasks out and put them back.
TEST(LoadedBuffer, KeepsLevelOrder) {
  for (int take = 0; take <= 5; ++take) {
    for (int mask = 0; mask < (1 << take); ++mask) {
      LoadedBuffer buffer;
      for (int id = 1; id <= 5; ++id) buffer.PushBack(Task(id));
      std::vector<LoadedTask> taken;
      for (int i = 0; i < take; ++i) taken.push_back(buffer.PopFront());
      std::size_t back = 0;
      for (int i = take - 1; i >= 0; --i) {
        if ((mask >> i & 1) == 0) continue;
        buffer.Insert(taken[static_cast<std::size_t>(i)]);
        buffer.Insert(taken[static_cast<std::size_t>(i)]);  // Twice is once.
        ++back;
      }
      ASSERT_EQ(buffer.size(), 5u - static_cast<std::size_t>(take) + back);
      EXPECT_EQ(buffer.bytes(), 2 * buffer.size());
      std::int64_t last = 0;
      while (!buffer.empty()) {
        const LoadedTask task = buffer.PopFront();
        EXPECT_GT(task.key.level.id.value, last);
        last = task.key.level.id.value;
      }
      EXPECT_EQ(buffer.bytes(), 0u);
    }
  }
}

TEST(LoadedBuffer, RemovesOutOfOrder) {
  LoadedBuffer buffer;
  for (int id = 1; id <= 3; ++id) buffer.PushBack(Task(id));
  EXPECT_TRUE(buffer.Remove({0, TaskId{2}}));
  EXPECT_FALSE(buffer.Remove({0, TaskId{2}}));
  EXPECT_EQ(buffer.size(), 2u);
  EXPECT_EQ(buffer.bytes(), 4u);
}

}  // namespace
}  // namespace millrace::backlog
