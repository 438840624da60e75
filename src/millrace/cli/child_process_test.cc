#include "millrace/cli/child_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "millrace/base/time.h"

namespace millrace::cli {
namespace {

class ChildProcessTest : public testing::Test {
 protected:
  // Starts a command on the loop; `then` runs there once it started.
  std::future<ChildExit> Start(std::string command, std::string input = "",
                               UniqueFunction<void(ChildProcess&)> then = nullptr) {
    auto promise = std::make_shared<std::promise<ChildExit>>();
    std::future<ChildExit> result = promise->get_future();
    loop_->Post([this, promise, command = std::move(command), input = std::move(input),
                 then = std::move(then)]() mutable {
      ChildSpec spec{command, {"PATH=/usr/bin:/bin", "MILLRACE_TASK_ID=t-1"}, input, false};
      Result<std::unique_ptr<ChildProcess>> child =
          ChildProcess::Start(*loop_, spec, [this, promise](ChildExit exit) {
            child_.reset();
            promise->set_value(std::move(exit));
          });
      ASSERT_TRUE(child.ok()) << child.status();
      child_ = std::move(child).value();
      if (then) then(*child_);
    });
    return result;
  }

  void TearDown() override {
    loop_.reset();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
    EXPECT_EQ(errno, ECHILD);
  }

  SystemClock clock_;
  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("test", clock_);
};

TEST_F(ChildProcessTest, ExitCodeAndStderr) {
  const ChildExit exit = Start("echo oops >&2; exit 7").get();
  EXPECT_FALSE(exit.signalled);
  EXPECT_EQ(exit.code, 7);
  EXPECT_EQ(exit.stderr_tail, "oops\n");
}

TEST_F(ChildProcessTest, PayloadIsOnStandardInputInFull) {
  const std::string megabyte(1 << 20, 'x');
  EXPECT_EQ(Start("test $(wc -c) -eq 1048576", megabyte).get().code, 0);
  EXPECT_EQ(Start("test -z \"$(cat)\"", "").get().code, 0);
}

TEST_F(ChildProcessTest, EnvironmentIsExactlyWhatIsGiven) {
  EXPECT_EQ(Start("test \"$MILLRACE_TASK_ID\" = t-1 && test -z \"$HOME\"").get().code, 0);
}

TEST_F(ChildProcessTest, KeepsTheEndOfALongStderr) {
  const ChildExit exit = Start("head -c 300000 /dev/zero >&2; printf end >&2; exit 1").get();
  EXPECT_EQ(exit.stderr_tail.size(), ChildProcess::kStderrTailBytes);
  EXPECT_EQ(exit.stderr_tail.substr(exit.stderr_tail.size() - 3), "end");
}

TEST_F(ChildProcessTest, ASignalReachesTheWholeGroup) {
  const ChildExit exit = Start("sleep 1000 | sleep 1000", "", [](ChildProcess& child) {
                           child.Signal(SIGTERM);
                         }).get();
  EXPECT_TRUE(exit.signalled);
  EXPECT_EQ(exit.code, SIGTERM);
}

TEST_F(ChildProcessTest, DestructionKillsAndReaps) {
  std::promise<void> gone;
  std::future<ChildExit> never = Start("exec sleep 1000", "", [this, &gone](ChildProcess&) {
    child_.reset();
    gone.set_value();
  });
  gone.get_future().get();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ChildProcessTest, AGrandchildThatKeepsStderrOpenIsNotWaitedFor) {
  const ChildExit exit = Start("sleep 5 & exit 3").get();
  EXPECT_EQ(exit.code, 3);
}

TEST_F(ChildProcessTest, ManyChildrenOneAfterAnother) {
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Start("exit " + std::to_string(i)).get().code, i);
}

}  // namespace
}  // namespace millrace::cli
