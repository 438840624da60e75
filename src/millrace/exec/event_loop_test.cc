#include "millrace/exec/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/random.h"

namespace millrace::exec {
namespace {

class EventLoopTest : public testing::Test {
 protected:
  // Runs `body` on the loop and waits for it.
  void OnLoop(Closure body) {
    std::promise<void> done;
    loop_->Post([&body, &done] {
      body();
      done.set_value();
    });
    done.get_future().wait();
  }

  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::Create("test", clock_);
};

TEST_F(EventLoopTest, RunsClosuresOfEachThreadInOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20'000;
  std::vector<int> last(kThreads, -1);  // Loop thread only.
  std::atomic<int> disorder = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &last, &disorder] {
      for (int i = 0; i < kEach; ++i) {
        loop_->Post([t, i, &last, &disorder] {
          if (last[t] != i - 1) ++disorder;
          last[t] = i;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  OnLoop([&last] { EXPECT_EQ(last, std::vector<int>(kThreads, kEach - 1)); });
  EXPECT_EQ(disorder, 0);
}

TEST_F(EventLoopTest, NeverRunsAClosureInsideThePost) {
  OnLoop([this] {
    const auto ran = std::make_shared<bool>(false);  // The closure runs after this one.
    EXPECT_TRUE(loop_->InLoopThread());
    EXPECT_EQ(Executor::Current(), loop_.get());
    loop_->Post([ran] { *ran = true; });
    EXPECT_FALSE(*ran);
    std::promise<void>* done = new std::promise<void>;
    loop_->Post([done] { delete done; });
  });
  EXPECT_FALSE(loop_->InLoopThread());
}

TEST_F(EventLoopTest, FlushRunsAfterWhatThePostedClosuresPost) {
  std::vector<int> order;
  std::promise<void> done;
  loop_->Post([this, &order, &done] {
    loop_->PostFlush([&order, &done] {
      order.push_back(4);
      done.set_value();
    });
    order.push_back(1);
    loop_->Post([this, &order] {
      order.push_back(2);
      loop_->Post([&order] { order.push_back(3); });
    });
  });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(EventLoopTest, TimersRunNeverBeforeTheirTimeAndInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  const Instant start = clock_.Now();
  const Instant first = start + std::chrono::milliseconds(3);
  const Instant second = start + std::chrono::milliseconds(6);
  loop_->PostAt(second, [this, second, &order, &done] {
    EXPECT_GE(clock_.Now(), second);
    order.push_back(2);
    done.set_value();
  });
  loop_->PostAt(first, [this, first, &order] {
    EXPECT_GE(clock_.Now(), first);
    order.push_back(1);
  });
  loop_->PostAt(start - std::chrono::seconds(1), [&order] { order.push_back(0); });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_F(EventLoopTest, ATimerCancelledByAnEarlierOneOfTheSameWakeUpDoesNotRun) {
  OnLoop([this] {
    const Instant past = clock_.Now() - std::chrono::seconds(1);
    auto victim = std::make_shared<TimerId>(0);
    loop_->PostAt(past, [this, victim] { EXPECT_TRUE(loop_->CancelTimer(*victim)); });
    *victim = loop_->PostAt(past, [] { ADD_FAILURE() << "cancelled timer ran"; });
  });
  std::promise<void> done;
  loop_->PostAt(clock_.Now(), [&done] { done.set_value(); });
  done.get_future().wait();
}

TEST_F(EventLoopTest, HundredThousandTimersFromManyThreadsEachRunOrAreCancelledOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 25'000;
  std::atomic<int> ran = 0;
  std::atomic<int> cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &ran, &cancelled] {
      SeededRandom random(t + 1);
      std::vector<TimerId> ids;
      for (int i = 0; i < kEach; ++i) {
        ids.push_back(
            loop_->PostAt(clock_.Now() + Duration(random.Below(20'000'000)), [&ran] { ++ran; }));
        if (random.Chance(1, 2) && loop_->CancelTimer(ids[random.Below(ids.size())])) ++cancelled;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::promise<void> done;
  loop_->PostAt(clock_.Now() + std::chrono::milliseconds(25), [&done] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(ran + cancelled, kThreads * kEach);
  EXPECT_GT(cancelled, 0);
}

TEST_F(EventLoopTest, WatchesDescriptorsUntilUnwatched) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  std::string seen;
  std::promise<void> done;
  EventLoop::WatchId watch = 0;
  OnLoop([&] {
    watch = loop_->Watch(fds[0], EPOLLIN, [&](std::uint32_t events) {
      EXPECT_NE(events & EPOLLIN, 0u);
      char buffer[16];
      const ssize_t n = read(fds[0], buffer, sizeof(buffer));
      seen.append(buffer, n);
      if (seen != "abcd") return;
      loop_->Unwatch(watch);
      // The captures are still there after Unwatch.
      done.set_value();
    });
  });
  ASSERT_EQ(write(fds[1], "ab", 2), 2);
  ASSERT_EQ(write(fds[1], "cd", 2), 2);
  done.get_future().wait();
  ASSERT_EQ(write(fds[1], "ef", 2), 2);
  OnLoop([] {});
  EXPECT_EQ(seen, "abcd");
  close(fds[0]);
  close(fds[1]);
}

TEST_F(EventLoopTest, AHandlerUnwatchedByAnotherOfTheSameWakeUpDoesNotRun) {
  int a[2];
  int b[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
  int ran = 0;
  EventLoop::WatchId watch_a = 0;
  EventLoop::WatchId watch_b = 0;
  OnLoop([&] {
    // Both are ready before the loop looks, so one batch holds both events.
    ASSERT_EQ(write(a[1], "x", 1), 1);
    ASSERT_EQ(write(b[1], "x", 1), 1);
    const auto handler = [&](std::uint32_t) {
      ++ran;
      loop_->Unwatch(watch_a);
      loop_->Unwatch(watch_b);
    };
    watch_a = loop_->Watch(a[0], EPOLLIN, handler);
    watch_b = loop_->Watch(b[0], EPOLLIN, handler);
  });
  OnLoop([] {});
  OnLoop([&ran] { EXPECT_EQ(ran, 1); });
  for (const int fd : {a[0], a[1], b[0], b[1]}) close(fd);
}

TEST_F(EventLoopTest, ChangeTurnsInterestOffAndOn) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  std::promise<void> done;
  EventLoop::WatchId watch = 0;
  bool interested = false;
  OnLoop([&] {
    watch = loop_->Watch(fds[0], 0, [&](std::uint32_t) {
      EXPECT_TRUE(interested);
      loop_->Unwatch(watch);
      done.set_value();
    });
  });
  ASSERT_EQ(write(fds[1], "x", 1), 1);
  OnLoop([] {});
  OnLoop([&] {
    interested = true;
    loop_->Change(watch, EPOLLIN);
  });
  done.get_future().wait();
  close(fds[0]);
  close(fds[1]);
}

TEST_F(EventLoopTest, DestructionRunsPostsAndDestroysTimersAndHandlersOnTheLoop) {
  struct Probe {
    explicit Probe(int* count) : destroyed(count) {}
    ~Probe() { ++*destroyed; }
    int* destroyed;
  };
  int destroyed = 0;
  int ran = 0;
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  loop_->PostAt(clock_.Now() + std::chrono::hours(1),
                [probe = std::make_unique<Probe>(&destroyed)] { ADD_FAILURE(); });
  OnLoop([&] {
    loop_->Watch(fds[0], EPOLLIN, [probe = std::make_shared<Probe>(&destroyed)](std::uint32_t) {});
  });
  for (int i = 0; i < 10'000; ++i) loop_->Post([&ran] { ++ran; });
  loop_.reset();
  EXPECT_EQ(ran, 10'000);
  EXPECT_EQ(destroyed, 2);
  close(fds[0]);
  close(fds[1]);
}

TEST_F(EventLoopTest, TwoLoopsPassABallWithoutLosingIt) {
  const std::unique_ptr<EventLoop> other = EventLoop::Create("other", clock_);
  std::promise<void> done;
  int passes = 0;  // Handed over with the ball.
  struct Player {
    EventLoop& here;
    EventLoop& there;
    int& passes;
    std::promise<void>& done;
    void operator()() const {
      if (++passes == 20'000) {
        done.set_value();
        return;
      }
      there.Post(Player{there, here, passes, done});
    }
  };
  loop_->Post(Player{*loop_, *other, passes, done});
  done.get_future().wait();
  EXPECT_EQ(passes, 20'000);
}

}  // namespace
}  // namespace millrace::exec
