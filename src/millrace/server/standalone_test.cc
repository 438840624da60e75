#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/server/run_server.h"
#include "millrace/server/server.h"
#include "millrace/v1/queue.pb.h"

namespace millrace::server {
namespace {

using ::testing::HasSubstr;

// The product as it is wired, on real ports: queue service over RocksDB in a folder of the test's
// own.
class StandaloneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(dir_.Create().ok());
    config_.listen = "127.0.0.1:0";
    config_.admin_listen = "127.0.0.1:0";
    config_.data_dir = dir_.path() + "/deep/data";
    config_.event_loops = 2;
    loop_ = exec::EventLoop::Create("client", clock_);
  }
  std::unique_ptr<Server> Make() {
    return std::make_unique<Server>(config_, StandaloneParts(), log_);
  }
  void Connect(const Server& server) {
    channel_ = rpc::Channel::Create(*loop_, {.target = server.grpc_addresses()[0]});
  }
  template <typename Response, typename Request>
  Response Call(const std::string& method, const Request& request) {
    const rpc::CallResult result = rpc::CallAndWait(
        *channel_, "/millrace.v1.QueueService/" + method, request.SerializeAsString(), {});
    EXPECT_TRUE(result.status.ok()) << method << ": " << result.status.message;
    Response response;
    EXPECT_TRUE(response.ParseFromString(result.response));
    return response;
  }

  TempDir dir_;
  SystemClock clock_;
  StderrLog log_{clock_, LogLevel::kError, LogFormat::kText, -1};
  ServerConfig config_;
  std::unique_ptr<exec::EventLoop> loop_;
  std::unique_ptr<rpc::Channel> channel_;
};

TEST_F(StandaloneTest, TasksOutliveTheServer) {
  v1::EnqueueRequest enqueue;
  enqueue.set_queue("mail");
  enqueue.add_tasks()->set_payload("one");
  enqueue.add_tasks()->set_payload("two");
  {
    auto server = Make();
    const Status started = server->Start();
    ASSERT_TRUE(started.ok()) << started;
    Connect(*server);
    EXPECT_EQ(Call<v1::EnqueueResponse>("Enqueue", enqueue).results_size(), 2);
    const auto metrics = httplib::Client("http://" + server->admin_address()).Get("/metrics");
    ASSERT_TRUE(metrics);
    EXPECT_THAT(metrics->body, HasSubstr("millrace_loaded_queues 1\n"));
    EXPECT_THAT(metrics->body, HasSubstr("millrace_tasks_enqueued_total 2\n"));
    channel_.reset();
    server->Stop();
  }
  auto server = Make();
  ASSERT_TRUE(server->Start().ok());
  Connect(*server);
  v1::LeaseRequest lease;
  lease.set_queue("mail");
  lease.set_max_tasks(10);
  const auto leased = Call<v1::LeaseResponse>("Lease", lease);
  ASSERT_GE(leased.tasks_size(), 1);
  EXPECT_EQ(leased.tasks(0).payload(), "one");
  channel_.reset();
}

TEST_F(StandaloneTest, AFolderInUseIsRefusedInWords) {
  auto first = Make();
  ASSERT_TRUE(first->Start().ok());
  auto second = Make();
  const Status status = second->Start();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(config_.data_dir));
}

TEST_F(StandaloneTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(dir_.path() + "/file") << "x";
  config_.data_dir = dir_.path() + "/file/below/data";
  const Status status = Make()->Start();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.path() + "/file"));
}

}  // namespace
}  // namespace millrace::server
