#include "millrace/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/server/server_test_parts.h"

namespace millrace::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    config_.listen = "127.0.0.1:0";
    config_.admin_listen = "127.0.0.1:0";
    config_.store.kind = StoreKind::kMemory;
    config_.event_loops = 2;
  }
  std::unique_ptr<Server> Make() {
    return std::make_unique<Server>(config_, TestParts(health_, events_), log_);
  }

  static httplib::Result Get(const std::string& address, const std::string& path) {
    return httplib::Client("http://" + address).Get(path);
  }
  // Asks until the answer is that; the test's own time limit ends it otherwise.
  static std::string ReadyzUntil(const std::string& address, int status) {
    for (;;) {
      const auto answer = Get(address, "/readyz");
      if (answer && answer->status == status) return answer->body;
      std::this_thread::yield();
    }
  }

  SystemClock clock_;
  StderrLog log_{clock_, LogLevel::kError, LogFormat::kText, -1};
  HealthSwitch health_;
  Events events_;
  ServerConfig config_;
};

TEST_F(ServerTest, ServesAndStopsInOrder) {
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  ASSERT_EQ(server->grpc_addresses().size(), 1U);
  EXPECT_FALSE(server->grpc_addresses()[0].ends_with(":0"));
  const std::string admin = server->admin_address();
  EXPECT_EQ(Get(admin, "/readyz")->status, 200);
  EXPECT_THAT(Get(admin, "/metrics")->body, HasSubstr("millrace_build_info"));
  server->Stop();
  EXPECT_FALSE(Get(admin, "/livez"));
  EXPECT_THAT(events_.Get(), ElementsAre("drain", "stop", "application gone", "store closed"));
  server->Stop();
}

TEST_F(ServerTest, ReadinessFollowsTheStore) {
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  const std::string admin = server->admin_address();
  health_.Set(Status(StatusCode::kResourceExhausted, "disk full"));
  EXPECT_THAT(ReadyzUntil(admin, 503), HasSubstr("disk full"));
  EXPECT_EQ(Get(admin, "/livez")->status, 200);
  health_.Set(OkStatus());
  EXPECT_EQ(ReadyzUntil(admin, 200), "ok\n");
}

TEST_F(ServerTest, StartsNotReadyOverAStoreThatRefusesWrites) {
  health_.Set(Status(StatusCode::kUnavailable, "io error"));
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  EXPECT_EQ(Get(server->admin_address(), "/readyz")->status, 503);
}

// A client of a server under test.
class Client {
 public:
  explicit Client(const std::string& target)
      : loop_(exec::EventLoop::Create("client", clock_)),
        channel_(rpc::Channel::Create(*loop_, {.target = target})) {}

  rpc::CallResult Call(const std::string& method, const std::string& request) {
    return rpc::CallAndWait(*channel_, method, request, {});
  }
  rpc::Channel& channel() { return *channel_; }

 private:
  SystemClock clock_;
  std::unique_ptr<exec::EventLoop> loop_;
  std::unique_ptr<rpc::Channel> channel_;
};

TEST_F(ServerTest, CallsReachTheApplicationAndWaitingOnesEndWithTheDrain) {
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  Client client(server->grpc_addresses()[0]);
  const rpc::CallResult echo = client.Call("/test.Echo/Call", "hello");
  ASSERT_TRUE(echo.status.ok()) << echo.status.message;
  EXPECT_EQ(echo.response, "hello");
  EXPECT_EQ(client.Call("/test.Echo/Nothing", "").status.code, rpc::Code::kUnimplemented);

  std::promise<rpc::CallResult> answer;
  client.channel().Call("/test.Echo/Wait", "", {},
                        [&answer](rpc::CallResult result) { answer.set_value(std::move(result)); });
  while (events_.Get().empty()) std::this_thread::yield();
  server->Stop();
  const rpc::CallResult waited = answer.get_future().get();
  EXPECT_TRUE(waited.status.ok()) << waited.status.message;
  EXPECT_EQ(waited.response, "drained");
  EXPECT_THAT(events_.Get(),
              ElementsAre("call waits", "drain", "stop", "application gone", "store closed"));
  EXPECT_EQ(client.Call("/test.Echo/Call", "x").status.code, rpc::Code::kUnavailable);
}

TEST_F(ServerTest, GrpcHealthFollowsTheStore) {
  constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
  // HealthCheckResponse with status SERVING and NOT_SERVING.
  constexpr char kServing[] = "\x08\x01";
  constexpr char kNotServing[] = "\x08\x02";
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  Client client(server->grpc_addresses()[0]);
  EXPECT_EQ(client.Call(kCheck, "").response, kServing);
  health_.Set(Status(StatusCode::kResourceExhausted, "disk full"));
  while (client.Call(kCheck, "").response != kNotServing) std::this_thread::yield();
  health_.Set(OkStatus());
  while (client.Call(kCheck, "").response != kServing) std::this_thread::yield();
}

TEST_F(ServerTest, ReadyFileTellsTheRealAddresses) {
  TempDir dir;
  ASSERT_TRUE(dir.Create().ok());
  config_.ready_file = dir.path() + "/ready";
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  std::ostringstream text;
  text << std::ifstream(config_.ready_file).rdbuf();
  EXPECT_EQ(text.str(), "{\"grpc\":\"" + server->grpc_addresses()[0] + "\",\"admin\":\"" +
                            server->admin_address() + "\",\"pid\":" + std::to_string(getpid()) +
                            "}\n");
  server.reset();
  EXPECT_NE(access(config_.ready_file.c_str(), F_OK), 0);
}

TEST_F(ServerTest, AddressInUseIsAnErrorAndNothingStaysBehind) {
  auto first = Make();
  ASSERT_TRUE(first->Start().ok());
  config_.listen = first->grpc_addresses()[0];
  auto second = Make();
  Status status = second->Start();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("listen: "));
  EXPECT_EQ(second->admin_address(), "");
  config_.listen = "127.0.0.1:0";
  config_.admin_listen = first->admin_address();
  EXPECT_THAT(std::string(Make()->Start().message()), HasSubstr("admin.listen"));
}

TEST_F(ServerTest, ErrorsOfTheStoreReachTheCaller) {
  ServerParts parts = TestParts(health_, events_);
  parts.store = [](const StoreEnvironment&) -> Result<std::unique_ptr<store::TaskStore>> {
    return Status(StatusCode::kFailedPrecondition, "data_dir is in use by another process");
  };
  Server server(config_, parts, log_);
  EXPECT_EQ(server.Start(),
            Status(StatusCode::kFailedPrecondition, "data_dir is in use by another process"));
}

TEST_F(ServerTest, AFolderForDataMustBeGivenUnlessTryingOut) {
  config_.store.kind = StoreKind::kRocksDb;
  const Status status = Make()->Start();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--data-dir"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--dev"));

  config_.dev = true;
  std::string folder;
  {
    auto server = Make();
    ASSERT_TRUE(server->Start().ok());
    folder = server->data_dir();
    EXPECT_EQ(access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

TEST_F(ServerTest, AdminCanBeOffAndSeveralAddressesServe) {
  config_.admin_listen = "";
  config_.listen = "127.0.0.1:0, 127.0.0.1:0";
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  EXPECT_EQ(server->admin_address(), "");
  EXPECT_EQ(server->grpc_addresses().size(), 2U);
  config_.listen = " , ";
  EXPECT_EQ(Make()->Start().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::server
