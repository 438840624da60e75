#include "millrace/core/ack_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace millrace::core {
namespace {

using Counting = AckManager::Counting;

TaskLevel L(std::int64_t id) { return {0, TaskId{id}}; }

// The definition, written down without regard for cost.
class Model {
 public:
  void Add(std::int64_t id) { finished_[id] = false; }
  bool Finish(std::int64_t id) {
    const auto it = finished_.find(id);
    if (it == finished_.end() || it->second) return false;
    it->second = true;
    return true;
  }
  std::int64_t Ack(std::int64_t begin, std::int64_t read) const {
    std::int64_t ack = begin;
    for (const auto& [id, finished] : finished_) {
      if (!finished) return ack;
      ack = id;
    }
    return read;
  }
  std::int64_t AckedCount(std::int64_t begin, std::int64_t read) const {
    std::int64_t n = 0;
    const std::int64_t ack = Ack(begin, read);
    for (const auto& [id, finished] : finished_) n += id <= ack ? 1 : 0;
    return n;
  }
  std::size_t Outstanding() const {
    return static_cast<std::size_t>(
        std::count_if(finished_.begin(), finished_.end(), [](const auto& e) { return !e.second; }));
  }

 private:
  std::map<std::int64_t, bool> finished_;
};

// Every order of finishing up to six tasks, with gaps between their ids, twice each and with
// unknown ids between.
TEST(AckManager, MatchesTheDefinitionInEveryOrder) {
  for (int n = 1; n <= 6; ++n) {
    std::vector<std::int64_t> order;
    for (int i = 0; i < n; ++i) order.push_back(10 + 3 * i);
    const std::vector<std::int64_t> ids = order;
    do {
      AckManager acks;
      Model model;
      acks.Begin(L(5));
      for (const std::int64_t id : ids) {
        acks.Add(L(id), WallTime{id});
        model.Add(id);
      }
      std::int64_t read = ids.back();
      std::int64_t counted = 0;
      TaskLevel last_ack = acks.ack_level();
      for (const std::int64_t id : order) {
        for (const std::int64_t probe : {id, id, id + 1, std::int64_t{1}}) {
          Acked acked;
          const bool known = acks.Finish(L(probe), Counting::kDone, &acked);
          EXPECT_EQ(known, model.Finish(probe));
          counted += acked.count;
        }
        EXPECT_EQ(acks.ack_level(), L(model.Ack(5, read)));
        EXPECT_GE(acks.ack_level(), last_ack);
        last_ack = acks.ack_level();
        EXPECT_EQ(counted, model.AckedCount(5, read));
        EXPECT_EQ(acks.outstanding(), model.Outstanding());
      }
      EXPECT_EQ(acks.ack_level(), acks.read_level());
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// All sequences of seven steps: add, finish the lowest, finish the highest, mark, unmark, cross a
// gap.
TEST(AckManager, EverySequenceOfStepsKeepsTheInvariants) {
  constexpr int kSteps = 7;
  constexpr int kKinds = 6;
  int total = 1;
  for (int i = 0; i < kSteps; ++i) total *= kKinds;
  for (int code = 0; code < total; ++code) {
    AckManager acks;
    acks.Begin(L(0));
    std::vector<std::int64_t> open;
    std::int64_t next = 1;
    std::int64_t added = 0;
    std::int64_t counted = 0;
    for (int i = 0, rest = code; i < kSteps; ++i, rest /= kKinds) {
      const TaskLevel ack_before = acks.ack_level();
      const TaskLevel read_before = acks.read_level();
      Acked acked;
      switch (rest % kKinds) {
        case 0:
          acks.Add(L(next), WallTime{next});
          open.push_back(next);
          next += 2;
          ++added;
          break;
        case 1:
          acked = acks.AddFinished(L(next++), Counting::kDropped);
          ++added;
          break;
        case 2:
        case 3:
          if (!open.empty()) {
            const auto at = rest % kKinds == 2 ? open.begin() : open.end() - 1;
            EXPECT_TRUE(acks.Finish(L(*at), Counting::kDone, &acked));
            open.erase(at);
          }
          break;
        case 4:
          if (!open.empty()) {
            EXPECT_TRUE(acks.BeginEnd(L(open.front())));
            EXPECT_FALSE(acks.BeginEnd(L(open.front())));
            acks.CancelEnd(L(open.front()));
          }
          break;
        case 5:
          acked = acks.AdvanceRead(L(next++));
          break;
      }
      counted += acked.count;
      EXPECT_GE(acks.ack_level(), ack_before);
      EXPECT_GE(acks.read_level(), read_before);
      EXPECT_LE(acks.ack_level(), acks.read_level());
      EXPECT_EQ(acks.outstanding(), open.size());
      if (open.empty()) {
        EXPECT_EQ(acks.ack_level(), acks.read_level());
        EXPECT_EQ(counted, added);
        EXPECT_FALSE(acks.head_create_time().is_set());
      } else {
        EXPECT_LT(acks.ack_level(), L(open.front()));
        EXPECT_EQ(acks.head_create_time().ns, open.front());
      }
    }
  }
}

TEST(AckManager, LevelsAreUnknownUntilTheLeaseIsHeld) {
  AckManager acks;
  EXPECT_EQ(acks.ack_level(), kUnknownLevel);
  EXPECT_EQ(acks.read_level(), kUnknownLevel);
  acks.Begin(L(0));
  EXPECT_EQ(acks.ack_level(), L(0));
}

TEST(AckManager, MillionsFinishingBehindAnOldTaskCostNothing) {
  AckManager acks;
  acks.Begin(L(0));
  acks.Add(L(1), WallTime{1});
  std::size_t most = 0;
  for (std::int64_t id = 2; id <= 1'000'000; ++id) {
    Acked acked;
    acks.Add(L(id), WallTime{id});
    ASSERT_TRUE(acks.Finish(L(id), Counting::kDone, &acked));
    ASSERT_EQ(acked.count, 0);
    most = std::max(most, acks.entries());
  }
  EXPECT_LE(most, 64u);
  EXPECT_EQ(acks.ack_level(), L(0));
  Acked acked;
  ASSERT_TRUE(acks.Finish(L(1), Counting::kDone, &acked));
  EXPECT_EQ(acked.count, 1'000'000);
  EXPECT_EQ(acks.ack_level(), L(1'000'000));
  EXPECT_EQ(acks.entries(), 0u);
}

TEST(AckManager, EntriesStayInProportionToWhatIsOutstanding) {
  AckManager acks;
  acks.Begin(L(0));
  std::int64_t id = 1;
  for (int i = 0; i < 200'000; ++i, ++id) {
    Acked acked;
    acks.Add(L(id), WallTime{id});
    if (i % 1'000 != 0) {
      ASSERT_TRUE(acks.Finish(L(id), Counting::kDone, &acked));
    }
    ASSERT_LE(acks.entries(), 4 * acks.outstanding() + 40);
  }
  EXPECT_EQ(acks.outstanding(), 200u);
}

TEST(AckManager, DropsAreCountedApartAndUncountedOnesNotAtAll) {
  AckManager acks;
  acks.Begin(L(0));
  acks.Add(L(1), WallTime{1});
  EXPECT_EQ(acks.AddFinished(L(2), Counting::kDropped).count, 0);
  acks.Add(L(3), WallTime{3});
  acks.Add(L(4), WallTime{4});
  Acked acked;
  EXPECT_TRUE(acks.Finish(L(3), Counting::kNone, &acked));
  EXPECT_TRUE(acks.Finish(L(4), Counting::kDone, &acked));
  EXPECT_TRUE(acks.Finish(L(1), Counting::kDone, &acked));
  EXPECT_EQ(acked.count, 3);
  EXPECT_EQ(acked.dropped, 1);
}

TEST(AckManager, PassOrdersBeforeId) {
  AckManager acks;
  acks.Begin({0, TaskId{0}});
  acks.Add({1, TaskId{9}}, WallTime{1});
  acks.Add({2, TaskId{3}}, WallTime{2});
  Acked acked;
  EXPECT_TRUE(acks.Finish({2, TaskId{3}}, Counting::kDone, &acked));
  EXPECT_EQ(acks.ack_level(), L(0));
  EXPECT_TRUE(acks.Finish({1, TaskId{9}}, Counting::kDone, &acked));
  EXPECT_EQ(acks.ack_level(), (TaskLevel{2, TaskId{3}}));
}

TEST(AckManagerDeathTest, ReadLevelNeverGoesBack) {
  AckManager acks;
  acks.Begin(L(5));
  EXPECT_DEATH(acks.Add(L(5), WallTime{}), "read_level_");
  EXPECT_DEATH(acks.AdvanceRead(L(4)), "read_level_");
}

}  // namespace
}  // namespace millrace::core
