#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

// Holds calls until the test answers them. Thread: any.
class ParkedCalls {
 public:
  void Add(std::unique_ptr<ServerCall> call) {
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.NotifyAll();
  }
  // Waits until `count` calls are parked, and hands them over.
  std::vector<std::unique_ptr<ServerCall>> Take(std::size_t count) {
    MutexLock lock(mutex_);
    while (calls_.size() < count) changed_.Wait(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<ServerCall>> calls_ MR_GUARDED_BY(mutex_);
};

class RpcTest : public testing::Test {
 protected:
  void SetUp() override { StartServer({}); }

  void StartServer(ServerOptions options) {
    server_ = nullptr;
    if (options.listen.empty()) options.listen = {"127.0.0.1:0"};
    ServiceTable services;
    services.unary["/test.Echo/Echo"] = [](std::unique_ptr<ServerCall> call) {
      std::string request(call->request());
      call->FinishOk(std::move(request));
    };
    services.unary["/test.Echo/Fail"] = [](std::unique_ptr<ServerCall> call) {
      call->AddTrailer("why", "because");
      call->Finish({Code::kFailedPrecondition, "100 % \"nö\"\n", std::string("\x08\x09\x00x", 4)},
                   "unused");
    };
    services.unary["/test.Echo/Metadata"] = [](std::unique_ptr<ServerCall> call) {
      for (const auto& [name, value] : call->metadata()) {
        call->AddHeader("h-" + name, value);
        call->AddTrailer("t-" + name, value);
      }
      call->FinishOk(std::string(call->peer()));
    };
    services.unary["/test.Echo/Park"] = [this](std::unique_ptr<ServerCall> call) {
      parked_.Add(std::move(call));
    };
    services.unary["/test.Echo/ParkLate"] = [this](std::unique_ptr<ServerCall> call) {
      late_.Add(std::move(call));
    };
    services.unary["/test.Echo/Drop"] = [](std::unique_ptr<ServerCall> call) { call = nullptr; };
    server_ = Server::Create({loop_.get(), second_loop_.get()}, std::move(options),
                             std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  std::unique_ptr<Channel> NewChannel() {
    ChannelOptions options;
    options.target = server_->addresses().front();
    options.receive_message_bytes_max = 64u << 20;
    return Channel::Create(*client_loop_, options);
  }

  [[nodiscard]] Instant In(Duration d) const { return clock_.Now() + d; }

  SystemClock clock_;
  NullLog log_;
  ParkedCalls parked_;
  ParkedCalls late_;  // Whose deadline may pass before they arrive.
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server1", clock_);
  std::unique_ptr<exec::EventLoop> second_loop_ = exec::EventLoop::Create("server2", clock_);
  std::unique_ptr<exec::EventLoop> client_loop_ = exec::EventLoop::Create("client", clock_);
  std::unique_ptr<Server> server_;
};

TEST_F(RpcTest, EchoesMessagesOfAllSizes) {
  const auto channel = NewChannel();
  for (const std::size_t size : {0u, 1u, 5u, 16'379u, 16'380u, 65'535u, 1u << 20, (4u << 20)}) {
    const std::string request(size, 'x');
    const CallResult result = CallAndWait(*channel, "/test.Echo/Echo", request, {});
    EXPECT_TRUE(result.status.ok()) << result.status.message;
    EXPECT_TRUE(result.response == request) << size;
  }
}

TEST_F(RpcTest, CarriesStatusMessageDetailsAndTrailers) {
  const auto channel = NewChannel();
  const CallResult result = CallAndWait(*channel, "/test.Echo/Fail", "x", {});
  EXPECT_EQ(result.status.code, Code::kFailedPrecondition);
  EXPECT_EQ(result.status.message, "100 % \"nö\"\n");
  EXPECT_EQ(result.status.details, std::string("\x08\x09\x00x", 4));
  EXPECT_EQ(result.response, "");
  EXPECT_EQ(result.trailers, (Metadata{{"why", "because"}}));
}

TEST_F(RpcTest, CarriesMetadataBothWays) {
  const auto channel = NewChannel();
  CallOptions options;
  options.metadata = {{"a", "1"},
                      {"a", "2"},
                      {"b-bin", std::string("\0\xff\x80", 3)},
                      {"grpc-x", "no"},
                      {"UPPER", "no"}};
  const CallResult result = CallAndWait(*channel, "/test.Echo/Metadata", "", options);
  ASSERT_TRUE(result.status.ok()) << result.status.message;
  EXPECT_EQ(result.headers,
            (Metadata{{"h-a", "1"}, {"h-a", "2"}, {"h-b-bin", std::string("\0\xff\x80", 3)}}));
  EXPECT_EQ(result.trailers,
            (Metadata{{"t-a", "1"}, {"t-a", "2"}, {"t-b-bin", std::string("\0\xff\x80", 3)}}));
  EXPECT_TRUE(result.response.starts_with("ipv4:127.0.0.1:")) << result.response;
}

TEST_F(RpcTest, RefusesWhatItDoesNotKnow) {
  const auto channel = NewChannel();
  CallResult result = CallAndWait(*channel, "/test.Echo/Nothing", "", {});
  EXPECT_EQ(result.status.code, Code::kUnimplemented);
  EXPECT_EQ(result.status.message, "unknown method Nothing for service test.Echo");
  result = CallAndWait(*channel, "/test.Other/Echo", "", {});
  EXPECT_EQ(result.status.code, Code::kUnimplemented);
  EXPECT_EQ(result.status.message, "unknown service test.Other");
}

TEST_F(RpcTest, ADroppedCallIsAnsweredWithInternal) {
  const auto channel = NewChannel();
  EXPECT_EQ(CallAndWait(*channel, "/test.Echo/Drop", "", {}).status.code, Code::kInternal);
}

TEST_F(RpcTest, RefusesMessagesAboveTheLimit) {
  const auto channel = NewChannel();
  const CallResult result =
      CallAndWait(*channel, "/test.Echo/Echo", std::string((4u << 20) + 1, 'x'), {});
  EXPECT_EQ(result.status.code, Code::kResourceExhausted) << result.status.message;
  EXPECT_TRUE(CallAndWait(*channel, "/test.Echo/Echo", "still works", {}).status.ok());
}

TEST_F(RpcTest, FinishesFromAnyThread) {
  const auto channel = NewChannel();
  std::vector<std::promise<CallResult>> results(10);
  for (std::size_t i = 0; i < results.size(); ++i) {
    channel->Call("/test.Echo/Park", std::to_string(i), {},
                  [&results, i](CallResult result) { results[i].set_value(std::move(result)); });
  }
  auto calls = parked_.Take(results.size());
  for (auto& call : calls) {
    const std::string request(call->request());
    call->FinishOk("got " + request);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].get_future().get().response, "got " + std::to_string(i));
  }
}

TEST_F(RpcTest, TheDeadlineIsShownAndEndsTheCallOnBothSides) {
  const auto channel = NewChannel();
  CallOptions options;
  options.deadline = In(std::chrono::milliseconds(50));
  std::promise<CallResult> result;
  channel->Call("/test.Echo/Park", "", options,
                [&result](CallResult r) { result.set_value(std::move(r)); });
  auto call = std::move(parked_.Take(1).front());
  EXPECT_LE(call->deadline(), In(std::chrono::milliseconds(51)));
  std::promise<void> cancelled;
  call->OnCancel([&cancelled] { cancelled.set_value(); });
  cancelled.get_future().wait();
  EXPECT_TRUE(call->cancelled());
  EXPECT_EQ(result.get_future().get().status.code, Code::kDeadlineExceeded);
  call->FinishOk("too late");
}

// For ThreadSanitizer: what the loop says by itself must not look at what a handler collects.
TEST_F(RpcTest, ReplyMetadataIsTheHandlersUntilItFinishes) {
  const auto channel = NewChannel();
  for (int i = 0; i < 20; ++i) {
    CallOptions options;
    options.deadline = In(std::chrono::milliseconds(20));
    std::promise<CallResult> result;
    channel->Call("/test.Echo/ParkLate", "", options,
                  [&result](CallResult r) { result.set_value(std::move(r)); });
    EXPECT_EQ(result.get_future().get().status.code, Code::kDeadlineExceeded);
    for (const auto& call : late_.Take(0)) {
      while (!call->cancelled()) call->AddTrailer("a", "b");
      call->FinishOk("");
    }
  }
}

TEST_F(RpcTest, CancellingReachesTheHandler) {
  const auto channel = NewChannel();
  std::promise<CallResult> result;
  const Channel::CallId id = channel->Call(
      "/test.Echo/Park", "", {}, [&result](CallResult r) { result.set_value(std::move(r)); });
  auto call = std::move(parked_.Take(1).front());
  std::promise<void> cancelled;
  call->OnCancel([&cancelled] { cancelled.set_value(); });
  channel->Cancel(id);
  cancelled.get_future().wait();
  EXPECT_EQ(result.get_future().get().status.code, Code::kCancelled);
  // Set after the fact, it runs at once.
  std::promise<void> again;
  call->OnCancel([&again] { again.set_value(); });
  again.get_future().wait();
}

TEST_F(RpcTest, AVanishedClientIsKnownAtOnce) {
  auto channel = NewChannel();
  channel->Call("/test.Echo/Park", "", {}, [](CallResult) {});
  auto call = std::move(parked_.Take(1).front());
  std::promise<void> cancelled;
  call->OnCancel([&cancelled] { cancelled.set_value(); });
  channel = nullptr;
  cancelled.get_future().wait();
}

TEST_F(RpcTest, ShutdownLetsCallsEndWithinTheGrace) {
  const auto channel = NewChannel();
  std::promise<CallResult> result;
  channel->Call("/test.Echo/Park", "", {},
                [&result](CallResult r) { result.set_value(std::move(r)); });
  auto call = std::move(parked_.Take(1).front());
  std::thread stopping([this] { server_->Shutdown(60 * kSecond); });
  call->FinishOk("in time");
  EXPECT_EQ(result.get_future().get().response, "in time");
  stopping.join();
}

TEST_F(RpcTest, ShutdownCancelsWhatIsLeftAfterTheGrace) {
  const auto channel = NewChannel();
  std::promise<CallResult> result;
  channel->Call("/test.Echo/Park", "", {},
                [&result](CallResult r) { result.set_value(std::move(r)); });
  auto call = std::move(parked_.Take(1).front());
  std::promise<void> cancelled;
  call->OnCancel([&cancelled] { cancelled.set_value(); });
  server_->Shutdown(std::chrono::milliseconds(1));
  cancelled.get_future().wait();
  EXPECT_EQ(result.get_future().get().status.code, Code::kUnavailable);
  call->FinishOk("nobody listens");
}

TEST_F(RpcTest, ReconnectsAfterTheServerCameBack) {
  const auto channel = NewChannel();
  ASSERT_TRUE(CallAndWait(*channel, "/test.Echo/Echo", "a", {}).status.ok());
  const std::string address = server_->addresses().front();
  server_ = nullptr;
  EXPECT_EQ(CallAndWait(*channel, "/test.Echo/Echo", "b", {}).status.code, Code::kUnavailable);
  std::promise<CallResult> waiting;
  CallOptions options;
  options.wait_for_ready = true;
  channel->Call("/test.Echo/Echo", "c", options,
                [&waiting](CallResult r) { waiting.set_value(std::move(r)); });
  ServerOptions server_options;
  server_options.listen = {address};
  StartServer(server_options);
  EXPECT_EQ(waiting.get_future().get().response, "c");
}

TEST_F(RpcTest, ManyCallsOverManyConnections) {
  ChannelOptions options;
  options.target = server_->addresses().front();
  options.connections_max = 3;
  const auto channel = Channel::Create(*client_loop_, options);
  constexpr int kCalls = 20'000;
  std::atomic<int> good = 0;
  std::atomic<int> ended = 0;
  std::promise<void> all;
  for (int i = 0; i < kCalls; ++i) {
    channel->Call("/test.Echo/Echo", std::to_string(i), {}, [&, i](CallResult result) {
      if (result.response == std::to_string(i)) ++good;
      if (++ended == kCalls) all.set_value();
    });
  }
  all.get_future().wait();
  EXPECT_EQ(good, kCalls);
}

TEST_F(RpcTest, ThousandsOfWaitingCallsEndInEveryWay) {
  constexpr int kEach = 1'000;
  std::atomic<int> ended[17] = {};
  const auto count = [&ended](CallResult result) {
    ++ended[static_cast<std::size_t>(result.status.code)];
  };
  ServerOptions server_options;
  server_options.concurrent_streams_max = 10 * kEach;
  StartServer(server_options);
  const auto cancelling = NewChannel();
  auto vanishing = NewChannel();
  const auto staying = NewChannel();
  std::vector<Channel::CallId> to_cancel;
  CallOptions late;
  late.deadline = In(std::chrono::hours(1));
  for (int i = 0; i < kEach; ++i) {
    CallOptions soon;
    soon.deadline = In(std::chrono::milliseconds(200));
    to_cancel.push_back(cancelling->Call("/test.Echo/Park", "cancel", late, count));
    vanishing->Call("/test.Echo/Park", "vanish", late, count);
    staying->Call("/test.Echo/Park", "finish", late, count);
    staying->Call("/test.Echo/Park", "drop", {}, count);
    staying->Call("/test.Echo/Park", "shut down", {}, count);
    staying->Call("/test.Echo/ParkLate", "", soon, count);
  }
  auto calls = parked_.Take(5 * kEach);
  std::atomic<int> cancelled = 0;
  for (auto& call : calls) call->OnCancel([&cancelled] { ++cancelled; });
  for (const Channel::CallId id : to_cancel) cancelling->Cancel(id);
  vanishing = nullptr;
  for (auto& call : calls) {
    if (call->request() == "finish") std::exchange(call, nullptr)->FinishOk("");
    if (call != nullptr && call->request() == "drop") call = nullptr;
  }
  // An answer over the same connection comes behind the answers before it.
  EXPECT_TRUE(CallAndWait(*staying, "/test.Echo/Echo", "", {}).status.ok());
  server_->Shutdown(std::chrono::milliseconds(1));
  for (auto& call : calls) {
    if (call != nullptr) call->FinishOk("nobody listens");
  }
  late_.Take(0).clear();
  std::promise<void> settled;
  client_loop_->PostAt(In(std::chrono::milliseconds(201)), [&settled] { settled.set_value(); });
  settled.get_future().wait();
  EXPECT_EQ(ended[static_cast<int>(Code::kOk)], kEach);
  EXPECT_EQ(ended[static_cast<int>(Code::kCancelled)], 2 * kEach);
  EXPECT_EQ(ended[static_cast<int>(Code::kInternal)], kEach);
  EXPECT_GE(ended[static_cast<int>(Code::kUnavailable)], kEach);
  EXPECT_EQ(ended[static_cast<int>(Code::kUnavailable)] +
                ended[static_cast<int>(Code::kDeadlineExceeded)],
            2 * kEach);
  EXPECT_EQ(cancelled, 3 * kEach);
}

TEST_F(RpcTest, WorksOverUnixSockets) {
  char directory[] = "/tmp/millrace_rpc_XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  ServerOptions options;
  options.listen = {"unix:" + std::string(directory) + "/socket"};
  StartServer(options);
  {
    const auto channel = NewChannel();
    const CallResult result = CallAndWait(*channel, "/test.Echo/Metadata", "", {});
    EXPECT_TRUE(result.status.ok()) << result.status.message;
    EXPECT_EQ(result.response, "unix:");
  }
  server_ = nullptr;
  EXPECT_EQ(rmdir(directory), 0) << "the socket's file is left behind";
}

TEST_F(RpcTest, SaysWhyItCannotListen) {
  ServerOptions options;
  options.listen = {server_->addresses().front()};
  const auto second = Server::Create({loop_.get()}, options, {}, log_, NullMetrics());
  const Status status = second->Start();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("Address already in use"), std::string_view::npos) << status;
}

}  // namespace
}  // namespace millrace::rpc
