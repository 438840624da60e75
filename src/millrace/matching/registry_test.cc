#include "millrace/matching/registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "millrace/exec/manual_executor.h"

namespace millrace::matching {
namespace {

using backlog::UnloadCause;
using std::chrono::minutes;
using std::chrono::seconds;

struct FakeQueue {
  using OnUnload = UniqueFunction<void(UnloadCause, const Status&)>;

  void Start(OnUnload unload) {
    ++starts;
    on_unload = std::move(unload);
  }
  void Stop(Closure done) {
    ++stops;
    stopped = std::move(done);
  }
  void UnloadIfIdle(Instant) {
    ++idle_questions;
    on_unload(UnloadCause::kIdle, OkStatus());
  }
  [[nodiscard]] Instant last_used() const { return used; }

  // The lease was lost, say.
  void AskForUnload() { on_unload(UnloadCause::kConflict, Status(StatusCode::kFenced, "lost")); }
  void FinishStop() { std::exchange(stopped, {})(); }

  int starts = 0;
  int stops = 0;
  int idle_questions = 0;
  Instant used;
  OnUnload on_unload;
  Closure stopped;
};

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest()
      : registry_(
            [this](const store::PhysicalQueueKey& key) -> std::shared_ptr<FakeQueue> {
              if (refused_.contains(key)) return nullptr;
              made_.push_back(std::make_shared<FakeQueue>());
              made_.back()->used = executor_.clock().Now();
              return made_.back();
            },
            executor_, minutes(4), log_) {}

  const store::PhysicalQueueKey key_{"default", "q", 0};
  exec::ManualExecutor executor_;
  NullLog log_;
  std::set<store::PhysicalQueueKey> refused_;
  std::vector<std::shared_ptr<FakeQueue>> made_;
  Registry<FakeQueue> registry_;
};

TEST_F(RegistryTest, LoadsOnceAndStartsOnce) {
  const auto queue = registry_.GetOrLoad(key_);
  EXPECT_EQ(registry_.GetOrLoad(key_), queue);
  EXPECT_EQ(registry_.Find(key_), queue);
  EXPECT_EQ(queue->starts, 1);
  EXPECT_EQ(made_.size(), 1u);
}

TEST_F(RegistryTest, TheNextInstanceStartsWhenTheOldOneHasStopped) {
  const auto old = registry_.GetOrLoad(key_);
  old->AskForUnload();
  EXPECT_EQ(old->stops, 1);
  EXPECT_EQ(registry_.Find(key_), nullptr);
  const auto next = registry_.GetOrLoad(key_);
  EXPECT_NE(next, old);
  EXPECT_EQ(next->starts, 0) << "both would fight over the range id";
  old->FinishStop();
  EXPECT_EQ(next->starts, 1);
}

TEST_F(RegistryTest, ALateSignalOfAnOldInstanceUnloadsNobody) {
  const auto old = registry_.GetOrLoad(key_);
  old->AskForUnload();
  const auto next = registry_.GetOrLoad(key_);
  old->AskForUnload();
  EXPECT_EQ(old->stops, 1);
  EXPECT_EQ(next->stops, 0);
  EXPECT_EQ(registry_.Find(key_), next);
  old->FinishStop();
  old->AskForUnload();
  EXPECT_EQ(next->stops, 0);
  EXPECT_EQ(registry_.Find(key_), next);
}

TEST_F(RegistryTest, OnlyWhatIsUnusedForLongIsAskedAndNoTimerIsLeft) {
  const auto queue = registry_.GetOrLoad(key_);
  executor_.AdvanceBy(minutes(3));
  queue->used = executor_.clock().Now();
  executor_.AdvanceBy(minutes(3));
  EXPECT_EQ(queue->idle_questions, 0);
  executor_.AdvanceBy(minutes(2));
  EXPECT_EQ(queue->idle_questions, 1);
  queue->FinishStop();
  EXPECT_EQ(registry_.size(), 0u);
  executor_.AdvanceBy(minutes(2));
  EXPECT_EQ(executor_.pending_timers(), 0u) << "nothing is loaded, and still it looks";
}

TEST_F(RegistryTest, QueuesThatMoveAreGoneWhenItIsSaidAndOthersStay) {
  const store::PhysicalQueueKey moving{"default", "moving", 0};
  const auto stays = registry_.GetOrLoad(key_);
  const auto old = registry_.GetOrLoad(moving);
  old->AskForUnload();
  const auto next = registry_.GetOrLoad(moving);
  refused_.insert(moving);
  bool gone = false;
  const auto moves = [&](const store::PhysicalQueueKey& key) { return key == moving; };
  registry_.UnloadIf(moves, UnloadCause::kForced, [&gone] { gone = true; });
  EXPECT_EQ(next->stops, 1);
  EXPECT_EQ(stays->stops, 0);
  EXPECT_EQ(registry_.GetOrLoad(moving), nullptr);
  next->FinishStop();
  EXPECT_FALSE(gone) << "the instance before it still stops";
  old->FinishStop();
  EXPECT_TRUE(gone);
  EXPECT_EQ(registry_.size(), 1u);
  EXPECT_EQ(registry_.GetOrLoad(moving), nullptr);
  EXPECT_EQ(registry_.size(), 1u);
  bool nothing = false;
  registry_.UnloadIf(moves, UnloadCause::kForced, [&nothing] { nothing = true; });
  EXPECT_TRUE(nothing);
  refused_.clear();
  EXPECT_NE(registry_.GetOrLoad(moving), nullptr);
}

TEST_F(RegistryTest, StopAllWaitsForEveryInstance) {
  const auto one = registry_.GetOrLoad(key_);
  const auto two = registry_.GetOrLoad({"default", "other", 0});
  two->AskForUnload();
  const auto three = registry_.GetOrLoad({"default", "other", 0});
  bool done = false;
  registry_.StopAll([&done] { done = true; });
  EXPECT_EQ(registry_.GetOrLoad(key_), nullptr);
  EXPECT_EQ(one->stops, 1);
  EXPECT_EQ(two->stops, 1);
  EXPECT_EQ(three->stops, 1);
  one->FinishStop();
  two->FinishStop();
  EXPECT_FALSE(done);
  three->FinishStop();
  EXPECT_TRUE(done);
  EXPECT_EQ(registry_.size(), 0u);
}

}  // namespace
}  // namespace millrace::matching
