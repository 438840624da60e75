#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "millrace/exec/manual_executor.h"
#include "millrace/server/periodic_task.h"
#include "millrace/server/ready_file.h"
#include "millrace/server/service_manager.h"
#include "millrace/server/signals.h"
#include "millrace/server/temp_dir.h"

namespace millrace::server {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TempDirTest, IsPrivateAndGoesWithAllItHolds) {
  std::string path;
  {
    TempDir dir;
    ASSERT_TRUE(dir.Create().ok());
    path = dir.path();
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    std::ofstream(path + "/file") << "x";
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(ReadyFileTest, AppearsWholeAndGoes) {
  TempDir dir;
  ASSERT_TRUE(dir.Create().ok());
  const std::string path = dir.path() + "/ready.json";
  std::ofstream(path) << "left by a killed server";
  {
    ReadyFile file(path);
    EXPECT_NE(access(path.c_str(), F_OK), 0);
    ASSERT_TRUE(file.Write("127.0.0.1:1", "127.0.0.1:2").ok());
    EXPECT_EQ(Content(path), "{\"grpc\":\"127.0.0.1:1\",\"admin\":\"127.0.0.1:2\",\"pid\":" +
                                 std::to_string(getpid()) + "}\n");
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  ReadyFile nowhere(dir.path() + "/no/such/folder/x");
  EXPECT_EQ(nowhere.Write("a", "b").code(), StatusCode::kUnavailable);
  ReadyFile none("");
  EXPECT_TRUE(none.Write("a", "b").ok());
}

TEST(PeriodicTaskTest, RunsEveryIntervalUntilDestroyed) {
  exec::ManualExecutor executor;
  int runs = 0;
  {
    PeriodicTask task(executor, std::chrono::seconds(1), [&runs] { ++runs; });
    executor.RunUntilIdle();
    EXPECT_EQ(runs, 0);
    executor.AdvanceBy(std::chrono::milliseconds(3'500));
    EXPECT_EQ(runs, 3);
  }
  EXPECT_EQ(executor.pending_timers(), 0U);
  executor.AdvanceBy(std::chrono::seconds(5));
  EXPECT_EQ(runs, 3);
}

TEST(ServiceManagerTest, SendsStatesToASocket) {
  TempDir dir;
  ASSERT_TRUE(dir.Create().ok());
  const std::string path = dir.path() + "/notify";
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const ServiceManager manager(path);
  const auto receive = [fd] {
    char buffer[256];
    const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    return std::string(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
  };
  manager.Ready("serving");
  EXPECT_EQ(receive(), "READY=1\nSTATUS=serving\n");
  manager.Reloading(12);
  EXPECT_EQ(receive(), "RELOADING=1\nMONOTONIC_USEC=12\n");
  manager.Stopping();
  EXPECT_EQ(receive(), "STOPPING=1\nSTATUS=draining\n");
  close(fd);
  // Nobody there, or nothing sensible: no effect.
  ServiceManager("").Ready("x");
  ServiceManager("relative").Ready("x");
  ServiceManager(dir.path() + "/gone").Ready("x");
}

TEST(SignalsTest, AreReadOneAtATimeAndRestored) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    Signals signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.Wait(), SIGHUP);
    raise(SIGTERM);
    EXPECT_EQ(signals.Wait(), SIGTERM);
    raise(SIGPIPE);
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

TEST(SignalsDeathTest, NextSignalAfterTheFirstExitsAtOnce) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto second_signal = [] {
    Signals signals;
    raise(SIGTERM);
    signals.Wait();
    signals.ExitAtNext(std::chrono::hours(1));
    raise(SIGINT);
  };
  EXPECT_EXIT(second_signal(), ::testing::ExitedWithCode(128 + SIGINT), "");
  const auto too_slow = [] {
    Signals signals;
    signals.ExitAtNext(std::chrono::hours(1));
    raise(SIGALRM);
  };
  EXPECT_EXIT(too_slow(), ::testing::ExitedWithCode(1), "giving up");
}

}  // namespace
}  // namespace millrace::server
