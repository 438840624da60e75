#include "millrace/cli/work_book.h"

#include <chrono>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using std::chrono::seconds;
using Settle = WorkBook::Settle;

constexpr Instant kStart{1'000'000'000};

WorkBook::Options Defaults(int slots = 2) {
  WorkBook::Options options;
  options.slots = slots;
  options.lease = seconds(30);
  options.grace = seconds(20);
  options.kill_wait = seconds(5);
  options.report_wait = seconds(4);
  return options;
}

TaskExit Done() { return {}; }
TaskExit Failed() { return {TaskExit::Kind::kFailed, "exit code 1"}; }

std::int64_t Outcomes(const WorkSummary& s) {
  return s.completed + s.failed + s.lease_lost + s.released + s.unconfirmed + s.unreported;
}

TEST(WorkBookTest, AsksForFreeSlotsOnly) {
  WorkBook book(Defaults(3));
  EXPECT_EQ(book.PollSize(), 3);
  const auto a = book.OnLeased("a", seconds(30), kStart);
  book.OnLeased("b", seconds(30), kStart);
  EXPECT_EQ(book.PollSize(), 1);
  book.OnExit(a, Done(), kStart);
  EXPECT_EQ(book.PollSize(), 2) << "a slot is free as soon as the command ended";
}

TEST(WorkBookTest, PausesWhenReportsPileUp) {
  WorkBook::Options options = Defaults(2);
  options.settles_max = 2;
  WorkBook book(options);
  for (int i = 0; i < 2; ++i) book.OnExit(book.OnLeased("t", seconds(30), kStart), Done(), kStart);
  EXPECT_EQ(book.PollSize(), 0);
  EXPECT_TRUE(book.polling());
  const auto reports = book.TakeReports(Settle::kComplete, 1);
  book.OnReportAnswer(reports[0].key, ItemAnswer::kOk);
  EXPECT_EQ(book.PollSize(), 2);
}

TEST(WorkBookTest, ReportsByKindInOrderAndCountsOnce) {
  WorkBook book(Defaults(3));
  const auto a = book.OnLeased("a", seconds(30), kStart);
  const auto b = book.OnLeased("b", seconds(30), kStart);
  const auto c = book.OnLeased("c", seconds(30), kStart);
  book.OnExit(c, Done(), kStart);
  book.OnExit(a, Done(), kStart);
  book.OnExit(b, {TaskExit::Kind::kFailedForGood, "bad"}, kStart);
  const auto completes = book.TakeReports(Settle::kComplete, 10);
  ASSERT_EQ(completes.size(), 2u);
  EXPECT_EQ(completes[0].token, "a");
  EXPECT_EQ(completes[1].token, "c");
  EXPECT_TRUE(book.TakeReports(Settle::kComplete, 10).empty()) << "already sent";
  const auto fails = book.TakeReports(Settle::kFail, 10);
  ASSERT_EQ(fails.size(), 1u);
  EXPECT_EQ(fails[0].exit.kind, TaskExit::Kind::kFailedForGood);
  for (const auto& report : completes) book.OnReportAnswer(report.key, ItemAnswer::kOk);
  book.OnReportAnswer(fails[0].key, ItemAnswer::kOk);
  book.OnReportAnswer(fails[0].key, ItemAnswer::kOk);
  EXPECT_EQ(book.summary().completed, 2);
  EXPECT_EQ(book.summary().failed, 1);
  EXPECT_TRUE(book.Idle());
}

TEST(WorkBookTest, ExtendsAtAThirdAndTakesNeighboursAlong) {
  WorkBook book(Defaults(3));
  book.OnLeased("a", seconds(30), kStart);
  book.OnLeased("b", seconds(30), kStart + seconds(2));
  book.OnLeased("c", seconds(30), kStart + seconds(6));
  EXPECT_EQ(book.NextTick(), kStart + seconds(10));
  EXPECT_TRUE(book.Tick(kStart + seconds(9)).extend.empty());
  const Instant due = kStart + seconds(10);
  const auto actions = book.Tick(due);
  ASSERT_EQ(actions.extend.size(), 2u) << "b is due within a twelfth of the lease, c is not";
  EXPECT_TRUE(book.Tick(due).extend.empty()) << "in flight";
  for (const auto& [key, token] : actions.extend) {
    book.OnExtendAnswer(key, ItemAnswer::kOk, due, due + seconds(1));
  }
  EXPECT_EQ(book.NextTick(), kStart + seconds(16)) << "c";
}

TEST(WorkBookTest, AFailedExtendIsTriedAgainSoonUntilTheLeaseIsOver) {
  WorkBook book(Defaults(1));
  const auto key = book.OnLeased("a", seconds(30), kStart);
  Instant now = kStart + seconds(10);
  int tries = 0;
  for (;;) {
    const auto actions = book.Tick(now);
    if (!actions.terminate.empty()) break;
    for (const auto& [k, token] : actions.extend) {
      ++tries;
      book.OnExtendAnswer(k, ItemAnswer::kUncertain, now, now);
    }
    ASSERT_GT(book.NextTick(), now);
    now = book.NextTick();
  }
  EXPECT_EQ(now, kStart + seconds(30));
  EXPECT_EQ(tries, 8);
  book.OnExit(key, Failed(), now);
  EXPECT_EQ(book.summary().lease_lost, 1);
  EXPECT_EQ(book.summary().failed, 0);
}

TEST(WorkBookTest, ALostLeaseKillsPolitelyThenHard) {
  WorkBook book(Defaults(1));
  const auto key = book.OnLeased("a", seconds(30), kStart);
  Instant now = kStart + seconds(10);
  ASSERT_EQ(book.Tick(now).extend.size(), 1u);
  book.OnExtendAnswer(key, ItemAnswer::kLeaseLost, now, now);
  auto actions = book.Tick(now);
  EXPECT_EQ(actions.terminate, std::vector{key});
  EXPECT_TRUE(actions.kill.empty());
  EXPECT_EQ(book.NextTick(), now + seconds(5));
  now = now + seconds(5);
  EXPECT_EQ(book.Tick(now).kill, std::vector{key});
  EXPECT_TRUE(book.Tick(now).kill.empty());
  book.OnExit(key, Done(), now);
  EXPECT_FALSE(book.HasReports(Settle::kComplete)) << "a lost lease has nothing to report";
  EXPECT_EQ(book.summary().lease_lost, 1);
}

TEST(WorkBookTest, StopLetsRunningWorkFinishInsideTheGrace) {
  WorkBook book(Defaults(2));
  const auto key = book.OnLeased("a", seconds(30), kStart);
  book.Stop(false, kStart);
  EXPECT_EQ(book.PollSize(), 0);
  EXPECT_FALSE(book.Finished());
  EXPECT_EQ(book.Tick(kStart + seconds(10)).extend.size(), 1u) << "leases are kept while waiting";
  book.OnExit(key, Done(), kStart + seconds(11));
  book.OnReportAnswer(book.TakeReports(Settle::kComplete, 1)[0].key, ItemAnswer::kOk);
  EXPECT_TRUE(book.Finished());
  EXPECT_EQ(book.summary().completed, 1);
}

TEST(WorkBookTest, AfterTheGraceTheRestIsKilledAndReleased) {
  WorkBook book(Defaults(2));
  const auto a = book.OnLeased("a", seconds(60), kStart);
  const auto b = book.OnLeased("b", seconds(60), kStart);
  book.Stop(false, kStart);
  const Instant end = kStart + seconds(20);
  EXPECT_EQ(book.Tick(end).terminate, (std::vector{a, b}));
  book.OnExit(a, Failed(), end);
  book.OnExit(b, Done(), end);
  const auto released = book.TakeReports(Settle::kRelease, 10);
  ASSERT_EQ(released.size(), 1u);
  EXPECT_EQ(released[0].token, "a");
  EXPECT_EQ(book.TakeReports(Settle::kComplete, 10).size(), 1u) << "b ended well all the same";
}

TEST(WorkBookTest, TheSecondSignalKillsAtOnce) {
  WorkBook book(Defaults(2));
  const auto a = book.OnLeased("a", seconds(60), kStart);
  book.Stop(false, kStart);
  EXPECT_TRUE(book.Tick(kStart).terminate.empty());
  book.Stop(true, kStart);
  const auto actions = book.Tick(kStart);
  EXPECT_EQ(actions.terminate, std::vector{a});
  EXPECT_EQ(actions.kill, std::vector{a});
}

TEST(WorkBookTest, ATaskThatComesAfterTheStopGoesBack) {
  WorkBook book(Defaults(1));
  book.Stop(false, kStart);
  book.OnLeasedTooLate("late");
  EXPECT_FALSE(book.Finished());
  const auto reports = book.TakeReports(Settle::kRelease, 10);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].token, "late");
  book.OnReportAnswer(reports[0].key, ItemAnswer::kOk);
  EXPECT_TRUE(book.Finished());
  EXPECT_EQ(book.summary().released, 1);
}

TEST(WorkBookTest, ReportsAreGivenUpSomeTimeAfterAStop) {
  WorkBook book(Defaults(2));
  const auto a = book.OnLeased("a", seconds(60), kStart);
  const auto b = book.OnLeased("b", seconds(60), kStart);
  book.OnExit(b, Done(), kStart);
  book.Stop(false, kStart);
  EXPECT_EQ(book.give_up_at(), Instant::Max()) << "a still runs";
  book.OnExit(a, Done(), kStart + seconds(1));
  EXPECT_EQ(book.give_up_at(), kStart + seconds(5));
  EXPECT_EQ(book.NextTick(), kStart + seconds(5));
  book.OnReportAnswer(book.TakeReports(Settle::kComplete, 1)[0].key, ItemAnswer::kUncertain);
  book.GiveUpReports();
  EXPECT_TRUE(book.Finished());
  EXPECT_EQ(book.summary().unconfirmed, 1);
  EXPECT_EQ(book.summary().unreported, 1);
}

TEST(WorkBookTest, ALostReplyFollowedByLeaseLostIsUnconfirmed) {
  WorkBook book(Defaults(1));
  book.OnExit(book.OnLeased("a", seconds(30), kStart), Done(), kStart);
  book.OnReportAnswer(book.TakeReports(Settle::kComplete, 1)[0].key, ItemAnswer::kUncertain);
  ASSERT_TRUE(book.HasReports(Settle::kComplete)) << "sent again";
  book.OnReportAnswer(book.TakeReports(Settle::kComplete, 1)[0].key, ItemAnswer::kLeaseLost);
  EXPECT_EQ(book.summary().unconfirmed, 1);
  EXPECT_EQ(book.summary().lease_lost, 0);
  const auto ends = book.TakeEnds();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(TaskEndName(ends[0].second), "unconfirmed");
  EXPECT_TRUE(book.TakeEnds().empty());
}

TEST(WorkBookTest, MaxTasksEndsPollingExactly) {
  WorkBook::Options options = Defaults(4);
  options.tasks_max = 5;
  WorkBook book(options);
  EXPECT_EQ(book.PollSize(), 4);
  for (int i = 0; i < 4; ++i) book.OnExit(book.OnLeased("t", seconds(30), kStart), Done(), kStart);
  EXPECT_EQ(book.PollSize(), 1);
  book.OnLeased("last", seconds(30), kStart);
  EXPECT_EQ(book.PollSize(), 0);
  EXPECT_FALSE(book.polling());
  EXPECT_FALSE(book.Finished());
}

// Every sequence of six events, from every mix of answers: each leased task is counted exactly once
// at the end.
TEST(WorkBookTest, EveryPathCountsEveryTaskOnce) {
  constexpr int kEvents = 9;
  constexpr int kLength = 6;
  int total = 1;
  for (int i = 0; i < kLength; ++i) total *= kEvents;
  for (int code = 0; code < total; ++code) {
    WorkBook book(Defaults(2));
    Instant now = kStart;
    std::vector<WorkBook::Key> running;
    const auto answer_all = [&book](ItemAnswer answer) {
      for (const Settle kind : {Settle::kComplete, Settle::kFail, Settle::kRelease}) {
        for (const auto& report : book.TakeReports(kind, 10))
          book.OnReportAnswer(report.key, answer);
      }
    };
    const auto tick = [&](ItemAnswer answer) {
      for (const auto& [key, token] : book.Tick(now).extend)
        book.OnExtendAnswer(key, answer, now, now);
    };
    int rest = code;
    for (int i = 0; i < kLength; ++i, rest /= kEvents) {
      switch (rest % kEvents) {
        case 0:
          if (book.PollSize() > 0) running.push_back(book.OnLeased("t", seconds(30), now));
          break;
        case 1:
        case 2:
          if (!running.empty()) {
            book.OnExit(running.back(), rest % kEvents == 1 ? Done() : Failed(), now);
            running.pop_back();
          }
          break;
        case 3:
          now = now + seconds(11);
          tick(ItemAnswer::kOk);
          break;
        case 4:
          now = now + seconds(11);
          tick(ItemAnswer::kLeaseLost);
          tick(ItemAnswer::kOk);
          break;
        case 5:
          answer_all(ItemAnswer::kUncertain);
          break;
        case 6:
          answer_all(ItemAnswer::kLeaseLost);
          break;
        case 7:
          answer_all(ItemAnswer::kOk);
          break;
        case 8:
          book.Stop(book.stopping(), now);
          break;
      }
      ASSERT_GE(book.PollSize(), 0);
      ASSERT_EQ(book.running(), running.size());
    }
    book.Stop(true, now);
    (void)book.Tick(now);
    for (const auto key : running) book.OnExit(key, Failed(), now);
    answer_all(ItemAnswer::kOk);
    ASSERT_TRUE(book.Finished()) << code;
    ASSERT_EQ(Outcomes(book.summary()), book.summary().leased) << code;
    std::set<WorkBook::Key> ended;
    for (const auto& [key, end] : book.TakeEnds()) ASSERT_TRUE(ended.insert(key).second) << code;
    ASSERT_EQ(static_cast<std::int64_t>(ended.size()), book.summary().leased) << code;
  }
}

}  // namespace
}  // namespace millrace::cli
