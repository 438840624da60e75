#include "millrace/server/run_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "millrace/server/server_test_parts.h"
#include "millrace/server/temp_dir.h"

namespace millrace::server {
namespace {

using ::testing::HasSubstr;

// Runs `millrace server` in a process of its own and plays its service manager, whose messages tell
// when it is ready without waiting by the clock.
class RunServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(dir_.Create().ok());
    const std::string path = dir_.path() + "/notify";
    notify_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(notify_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    sources_.flags = {{"listen", "127.0.0.1:0"},
                      {"admin.listen", "127.0.0.1:0"},
                      {"store.kind", "memory"},
                      {"ready_file", dir_.path() + "/ready"}};
  }
  void TearDown() override { close(notify_); }

  void Spawn(bool stuck = false) {
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ != 0) return;
    setenv("NOTIFY_SOCKET", (dir_.path() + "/notify").c_str(), 1);
    if (std::freopen((dir_.path() + "/stderr").c_str(), "w", stderr) == nullptr) _exit(99);
    HealthSwitch health;
    Events events;
    ServerParts parts = TestParts(health, events);
    if (stuck) {
      // A stop that never comes to an end.
      parts.application = [&events](const ApplicationEnvironment&) {
        return std::make_unique<StuckApplication>(events);
      };
    }
    _exit(RunServer(sources_, std::move(parts)));
  }
  std::string NextMessage() const {
    char buffer[512];
    const ssize_t n = recv(notify_, buffer, sizeof(buffer), 0);
    return std::string(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  int ExitCode() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] std::string File(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(dir_.path() + "/" + name).rdbuf();
    return text.str();
  }

  class StuckApplication final : public Application {
   public:
    explicit StuckApplication(Events& events) : echo_(events) {}
    rpc::ServiceTable Services() override { return echo_.Services(); }
    void BeginDrain() override { echo_.BeginDrain(); }
    void Stop(Closure done) override { never_ = std::move(done); }

   private:
    EchoApplication echo_;
    Closure never_;
  };

  TempDir dir_;
  int notify_ = -1;
  pid_t pid_ = -1;
  ConfigSources sources_;
};

TEST_F(RunServerTest, TermStopsCleanly) {
  Spawn();
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1\nSTATUS=serving on 127.0.0.1:"));
  EXPECT_THAT(File("ready"), HasSubstr("\"pid\":" + std::to_string(pid_)));
  kill(pid_, SIGTERM);
  EXPECT_THAT(NextMessage(), HasSubstr("STOPPING=1"));
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_EQ(File("ready"), "");
  EXPECT_THAT(File("stderr"), HasSubstr("server: serving grpc="));
  EXPECT_THAT(File("stderr"), HasSubstr("server: stopped"));
}

TEST_F(RunServerTest, SecondSignalEndsAStuckStopAtOnce) {
  Spawn(true);
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1"));
  kill(pid_, SIGINT);
  EXPECT_THAT(NextMessage(), HasSubstr("STOPPING=1"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(ExitCode(), 128 + SIGTERM);
}

TEST_F(RunServerTest, HangUpReloadsTheLogLevel) {
  const std::string path = dir_.path() + "/config.yaml";
  std::ofstream(path) << "log:\n  level: info\n";
  sources_.config_file = path;
  Spawn();
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1"));
  std::ofstream(path) << "log:\n  level: debug\n";
  kill(pid_, SIGHUP);
  EXPECT_THAT(NextMessage(), HasSubstr("RELOADING=1"));
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1"));
  std::ofstream(path) << "log:\n  level: nonsense\n";
  kill(pid_, SIGHUP);
  EXPECT_THAT(NextMessage(), HasSubstr("RELOADING=1"));
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(File("stderr"), HasSubstr("settings reloaded log_level=debug"));
  EXPECT_THAT(File("stderr"), HasSubstr("settings not reloaded"));
}

TEST_F(RunServerTest, WrongSettingsAndWarningsAreSaid) {
  sources_.flags.emplace_back("log.level", "loud");
  Spawn();
  EXPECT_EQ(ExitCode(), 2);
  EXPECT_THAT(File("stderr"),
              HasSubstr("flag --log-level: log.level: expected debug|info|warn|error"));

  sources_.flags.pop_back();
  sources_.environment = {"MILLRACE_LISTN=x"};
  sources_.flags.emplace_back("dev", "true");
  Spawn();
  EXPECT_THAT(NextMessage(), HasSubstr("READY=1"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(File("stderr"), HasSubstr("MILLRACE_LISTN is not a setting"));
  EXPECT_THAT(File("stderr"), HasSubstr("  admin    http://127.0.0.1:"));
}

TEST_F(RunServerTest, WhatCannotStartSaysWhyAndExits) {
  sources_.flags[0].second = "not an address";
  Spawn();
  EXPECT_NE(ExitCode(), 0);
  EXPECT_THAT(File("stderr"), HasSubstr("cannot start: listen: "));
}

}  // namespace
}  // namespace millrace::server
