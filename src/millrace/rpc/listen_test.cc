#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kWhere = "/test.Where/Where";
constexpr std::size_t kLoops = 3;

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

// Sockets of the whole machine that listen at this port of the loopback address.
int ListeningSockets(const std::string& port) {
  std::ostringstream local;
  local << "0100007F:" << std::uppercase << std::hex;
  local.width(4);
  local.fill('0');
  local << std::stoi(port);
  std::ifstream table("/proc/net/tcp");
  int count = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number;
    std::string address;
    std::string remote;
    std::string state;
    words >> number >> address >> remote >> state;
    if (address == local.str() && state == "0A") ++count;
  }
  return count;
}

class ListenTest : public testing::Test {
 protected:
  ListenTest() {
    for (std::size_t i = 0; i < kLoops; ++i) {
      loops_.push_back(exec::EventLoop::Create("loop-" + std::to_string(i), clock_));
    }
  }

  std::unique_ptr<Server> NewServer(const std::string& address, bool reuse_port = true) {
    ServiceTable services;
    services.unary[kWhere] = [this](std::unique_ptr<ServerCall> call) {
      for (std::size_t i = 0; i < kLoops; ++i) {
        if (loops_[i]->InLoopThread()) call->FinishOk(std::to_string(i));
      }
    };
    ServerOptions options;
    options.listen = {address};
    options.reuse_port = reuse_port;
    std::vector<exec::EventLoop*> loops;
    for (const auto& loop : loops_) loops.push_back(loop.get());
    return Server::Create(std::move(loops), options, std::move(services), log_, NullMetrics());
  }

  // How many of this many connections each loop carries.
  std::vector<int> Spread(const std::string& address, int connections) {
    std::vector<int> spread(kLoops);
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (int i = 0; i < connections; ++i) {
      peers.push_back(std::make_unique<RawPeer>(address));
      peers.back()->Send(Preface() + Request(1, kWhere, ""));
      const Received& received = peers.back()->ReadUntilStreamEnds(1);
      ++spread.at(static_cast<std::size_t>(received.streams.at(1).data.back() - '0'));
    }
    return spread;
  }

  SystemClock clock_;
  NullLog log_;
  std::vector<std::unique_ptr<exec::EventLoop>> loops_;
};

TEST_F(ListenTest, EachLoopListensAndCarriesItsShare) {
  const auto server = NewServer("127.0.0.1:0");
  ASSERT_TRUE(server->Start().ok());
  const std::string address = server->addresses().front();
  EXPECT_NE(PortOf(address), "0");
  EXPECT_EQ(ListeningSockets(PortOf(address)), static_cast<int>(kLoops));
  EXPECT_THAT(Spread(address, 12), Each(4));
}

TEST_F(ListenTest, OneLoopMayAcceptForAll) {
  const auto server = NewServer("127.0.0.1:0", false);
  ASSERT_TRUE(server->Start().ok());
  const std::string address = server->addresses().front();
  EXPECT_EQ(ListeningSockets(PortOf(address)), 1);
  EXPECT_THAT(Spread(address, 12), Each(4));
}

TEST_F(ListenTest, AUnixSocketIsAcceptedByOneLoopForAll) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("millrace-listen-" + std::to_string(getpid())))
          .string();
  const auto server = NewServer("unix:" + path);
  ASSERT_TRUE(server->Start().ok());
  EXPECT_EQ(server->addresses().front(), "unix:" + path);
  EXPECT_THAT(Spread("unix:" + path, 12), Each(4));
  server->Shutdown(Duration::zero());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ListenTest, APortInUseIsAnErrorWhateverTheOtherOneDoes) {
  for (const bool first_shares : {true, false}) {
    for (const bool second_shares : {true, false}) {
      const auto first = NewServer("127.0.0.1:0", first_shares);
      ASSERT_TRUE(first->Start().ok());
      const auto second = NewServer(first->addresses().front(), second_shares);
      const Status started = second->Start();
      EXPECT_EQ(started.code(), StatusCode::kUnavailable);
      EXPECT_THAT(std::string(started.message()), HasSubstr("Address already in use"));
      EXPECT_THAT(Spread(first->addresses().front(), 3), Each(1));
    }
  }
}

TEST_F(ListenTest, FreePortsAreDifferentOnes) {
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<std::string> addresses;
  for (int i = 0; i < 50; ++i) {
    servers.push_back(NewServer("127.0.0.1:0"));
    ASSERT_TRUE(servers.back()->Start().ok());
    const std::string address = servers.back()->addresses().front();
    EXPECT_THAT(addresses, testing::Not(testing::Contains(address)));
    addresses.push_back(address);
  }
}

TEST_F(ListenTest, ThePortIsFreeAgainAfterTheEnd) {
  auto server = NewServer("127.0.0.1:0");
  ASSERT_TRUE(server->Start().ok());
  const std::string address = server->addresses().front();
  EXPECT_THAT(Spread(address, 6), Each(2));
  server->Shutdown(Duration::zero());
  EXPECT_EQ(ListeningSockets(PortOf(address)), 0);
  server = NewServer(address);
  const Status started = server->Start();
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_EQ(server->addresses().front(), address);
  EXPECT_THAT(Spread(address, 6), Each(2));
}

}  // namespace
}  // namespace millrace::rpc
