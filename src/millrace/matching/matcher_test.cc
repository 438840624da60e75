#include "millrace/matching/matcher.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "millrace/exec/manual_executor.h"

namespace millrace::matching {
namespace {

using std::chrono::seconds;

class FakeSource final : public TaskSource {
 public:
  [[nodiscard]] bool HasLoaded() const override { return !ids.empty(); }
  std::vector<backlog::LoadedTask> TakeLoaded(std::size_t max) override {
    std::vector<backlog::LoadedTask> tasks;
    while (!ids.empty() && tasks.size() < max) {
      backlog::LoadedTask task;
      task.key.level.id.value = ids.front();
      ids.pop_front();
      tasks.push_back(std::move(task));
    }
    return tasks;
  }

  std::deque<std::int64_t> ids;
};

struct Answer {
  int calls = 0;
  StatusCode code = StatusCode::kOk;
  std::vector<std::int64_t> ids;
};

class MatcherTest : public ::testing::Test {
 protected:
  MatcherTest() : strand_(executor_), matcher_(std::make_unique<Matcher>(strand_, source_, 3)) {}
  ~MatcherTest() override {
    OnStrand([this] { matcher_->Close(Status(StatusCode::kShuttingDown, "test over")); });
    OnStrand([this] { matcher_ = nullptr; });
  }
  void OnStrand(Closure closure) {
    strand_.Post(std::move(closure));
    executor_.RunUntilIdle();
  }
  std::shared_ptr<Answer> Poll(std::size_t max, Duration wait, Matcher::PollerId* id = nullptr) {
    auto answer = std::make_shared<Answer>();
    OnStrand([&] {
      PollRequest request;
      request.max_tasks = max;
      request.deadline = executor_.clock().Now() + wait;
      request.done = [answer](PollResult result) {
        ++answer->calls;
        answer->code = result.status.code();
        for (const backlog::LoadedTask& task : result.tasks)
          answer->ids.push_back(task.key.level.id.value);
      };
      const Matcher::PollerId poller = matcher_->AddPoller(std::move(request));
      EXPECT_EQ(answer->calls, 0) << "answered inside AddPoller";
      if (id != nullptr) *id = poller;
    });
    return answer;
  }
  void Arrive(std::initializer_list<std::int64_t> ids) {
    OnStrand([&] {
      source_.ids.insert(source_.ids.end(), ids);
      matcher_->Pump();
    });
  }

  exec::ManualExecutor executor_;
  exec::Strand strand_;
  FakeSource source_;
  std::unique_ptr<Matcher> matcher_;
};

using Ids = std::vector<std::int64_t>;

TEST_F(MatcherTest, APollerTakesWhatIsThereUpToItsMaximum) {
  source_.ids = {1, 2, 3};
  const auto answer = Poll(2, seconds(10));
  EXPECT_EQ(answer->ids, (Ids{1, 2}));
  EXPECT_EQ(matcher_->backlog_matches(), 2);
  OnStrand([this] { EXPECT_EQ(matcher_->pollers(), 0u); });
}

TEST_F(MatcherTest, FirstComeFirstServed) {
  const auto first = Poll(1, seconds(10));
  const auto second = Poll(5, seconds(10));
  Arrive({1, 2, 3});
  EXPECT_EQ(first->ids, (Ids{1}));
  EXPECT_EQ(second->ids, (Ids{2, 3}));
  EXPECT_EQ(matcher_->sync_matches(), 3);
}

TEST_F(MatcherTest, AWaitThatIsOverIsAnsweredEmptyAndOk) {
  const auto later = Poll(1, seconds(20));
  const auto sooner = Poll(1, seconds(5));
  executor_.AdvanceBy(seconds(5));
  EXPECT_EQ(sooner->calls, 1);
  EXPECT_EQ(sooner->code, StatusCode::kOk);
  EXPECT_TRUE(sooner->ids.empty());
  EXPECT_EQ(later->calls, 0);
  executor_.AdvanceBy(seconds(15));
  EXPECT_EQ(later->calls, 1);
  EXPECT_EQ(executor_.pending_timers(), 0u) << "no timer without a poller";
}

TEST_F(MatcherTest, ACallThatDoesNotWaitIsAnsweredAtOnce) {
  const auto answer = Poll(1, Duration::zero());
  EXPECT_EQ(answer->calls, 1);
  EXPECT_EQ(answer->code, StatusCode::kOk);
}

TEST_F(MatcherTest, ACancelledPollerTakesNothing) {
  Matcher::PollerId id = 0;
  const auto gone = Poll(1, seconds(10), &id);
  const auto other = Poll(1, seconds(10));
  OnStrand([&] { matcher_->CancelPoller(id); });
  EXPECT_EQ(gone->code, StatusCode::kCancelled);
  Arrive({1});
  EXPECT_TRUE(gone->ids.empty());
  EXPECT_EQ(other->ids, (Ids{1}));
  OnStrand([&] { matcher_->CancelPoller(id); });
  EXPECT_EQ(gone->calls, 1);
}

TEST_F(MatcherTest, OneTooManyIsRefusedAndTheOthersStay) {
  const auto a = Poll(1, seconds(10));
  const auto b = Poll(1, seconds(10));
  const auto c = Poll(1, seconds(10));
  const auto refused = Poll(1, seconds(10));
  EXPECT_EQ(refused->code, StatusCode::kResourceExhausted);
  Arrive({1, 2, 3});
  EXPECT_EQ(a->ids.size() + b->ids.size() + c->ids.size(), 3u);
}

TEST_F(MatcherTest, AnUnstoredTaskGoesToTheLongestWaitingPollerOnly) {
  backlog::LoadedTask task;
  task.key.level.id.value = 9;
  bool taken = true;
  OnStrand([&] { taken = matcher_->TryMatch(task); });
  EXPECT_FALSE(taken);
  EXPECT_EQ(task.key.level.id.value, 9) << "untouched when nobody waits";
  const auto first = Poll(1, seconds(10));
  const auto second = Poll(1, seconds(10));
  OnStrand([&] { taken = matcher_->TryMatch(task); });
  EXPECT_TRUE(taken);
  EXPECT_EQ(first->ids, (Ids{9}));
  EXPECT_EQ(second->calls, 0);
}

TEST_F(MatcherTest, CloseAnswersEveryoneAndLaterOnesToo) {
  const auto waiting = Poll(1, seconds(10));
  OnStrand([&] { matcher_->Close(Status(StatusCode::kShuttingDown, "going")); });
  EXPECT_EQ(waiting->code, StatusCode::kShuttingDown);
  source_.ids = {1};
  const auto late = Poll(1, seconds(10));
  EXPECT_EQ(late->code, StatusCode::kShuttingDown);
  EXPECT_EQ(source_.ids.size(), 1u) << "nothing taken for a poller that gets nothing";
}

TEST(SyncMatchAllowed, NewWorkDoesNotOvertakeAnOldBacklog) {
  EXPECT_TRUE(SyncMatchAllowed(Duration::zero(), seconds(5)));
  EXPECT_TRUE(SyncMatchAllowed(seconds(5), seconds(5)));
  EXPECT_FALSE(SyncMatchAllowed(seconds(5) + Duration(1), seconds(5)));
}

}  // namespace
}  // namespace millrace::matching
