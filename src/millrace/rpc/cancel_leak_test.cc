#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/block_pool.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MR_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MR_SANITIZED 1
#endif
#endif
#ifdef MR_SANITIZED
constexpr std::size_t kCalls = 2'000;  // For each way to end them.
#else
constexpr std::size_t kCalls = 20'000;
#endif
// So many that the resets on one connection are not taken for an attack.
constexpr std::size_t kChannels = 5;

// Counts up to what a test waits for. Thread: any.
class Count {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void Await(std::size_t count) {
    MutexLock lock(mutex_);
    while (count_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::size_t count_ MR_GUARDED_BY(mutex_) = 0;
};

// A call that waits at its handler, owned by its own cancel closure, as services do it. Thread:
// any.
class Waiting {
 public:
  explicit Waiting(std::unique_ptr<ServerCall> call, std::shared_ptr<int> token)
      : call_(std::move(call)), token_(std::move(token)) {}
  // Whoever comes first ends it. True for that one.
  bool FinishOnce(RpcStatus status) {
    std::unique_ptr<ServerCall> call;
    {
      MutexLock lock(mutex_);
      call = std::move(call_);
    }
    if (call == nullptr) return false;
    call->Finish(std::move(status), "reply");
    return true;
  }

 private:
  Mutex mutex_;
  std::unique_ptr<ServerCall> call_ MR_GUARDED_BY(mutex_);
  const std::shared_ptr<int> token_;
};

// After every test, with all threads gone: no call, no closure and no block of memory is left.
class CancelLeakTest : public testing::Test {
 protected:
  void SetUp() override {
    blocks_before_ = BlocksInUse();
    server_loop_ = exec::EventLoop::Create("server", clock_);
    client_loop_ = exec::EventLoop::Create("client", clock_);
    ServiceTable services;
    services.unary["/test.T/Wait"] = [this](std::unique_ptr<ServerCall> call) {
      ServerCall& waiting = *call;
      auto holder = std::make_shared<Waiting>(std::move(call), token_);
      {
        MutexLock lock(mutex_);
        if (keep_) kept_.push_back(holder);
      }
      waiting.OnCancel([holder = std::move(holder), this] {
        if (holder->FinishOnce({Code::kCancelled, "", {}})) ++cancelled_;
      });
      arrived_.Add();
    };
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.concurrent_streams_max = 2 * kCalls;
    server_ =
        Server::Create({server_loop_.get()}, options, std::move(services), log_, NullMetrics());
    ASSERT_TRUE(server_->Start().ok());
    ChannelOptions channel_options;
    channel_options.target = server_->addresses().front();
    for (std::size_t i = 0; i < kChannels; ++i) {
      channels_.push_back(Channel::Create(*client_loop_, channel_options));
    }
  }

  void TearDown() override {
    channels_.clear();
    server_ = nullptr;
    kept_.clear();
    client_loop_ = nullptr;
    server_loop_ = nullptr;
    EXPECT_EQ(token_.use_count(), 1);
    EXPECT_EQ(BlocksInUse(), blocks_before_);
  }

  void StartCalls(Duration timeout = std::chrono::hours(1)) {
    CallOptions options;
    options.deadline = clock_.Now() + timeout;
    options.metadata = {{"key", "a value that is too long to be kept inside a string"}};
    for (std::size_t i = 0; i < kCalls; ++i) {
      ids_.push_back(
          channels_[i % kChannels]->Call("/test.T/Wait", std::string(100, 'x'), options,
                                         [this, token = token_](const CallResult& result) {
                                           ++by_code_[static_cast<std::size_t>(result.status.code)];
                                           ended_.Add();
                                         }));
    }
  }
  std::size_t Ended(Code code) { return by_code_[static_cast<std::size_t>(code)]; }

  SystemClock clock_;
  NullLog log_;
  const std::shared_ptr<int> token_ = std::make_shared<int>(0);
  std::int64_t blocks_before_ = 0;
  Count arrived_;
  Count ended_;
  std::atomic<std::size_t> cancelled_ = 0;
  std::atomic<std::size_t> by_code_[17] = {};
  std::vector<Channel::CallId> ids_;
  Mutex mutex_;
  bool keep_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Waiting>> kept_;  // Read once all have arrived.
  std::unique_ptr<exec::EventLoop> server_loop_;
  std::unique_ptr<exec::EventLoop> client_loop_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

TEST_F(CancelLeakTest, TheClientCancels) {
  StartCalls();
  arrived_.Await(kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) channels_[i % kChannels]->Cancel(ids_[i]);
  ended_.Await(kCalls);
  EXPECT_EQ(Ended(Code::kCancelled), kCalls);
}

TEST_F(CancelLeakTest, DeadlinesPass) {
  // Some before the call was sent, some on the way, some while it waits.
  StartCalls(std::chrono::milliseconds(200));
  ended_.Await(kCalls);
  EXPECT_EQ(Ended(Code::kDeadlineExceeded), kCalls);
}

TEST_F(CancelLeakTest, TheConnectionIsCut) {
  {
    RawPeer peer(server_->addresses().front());
    ASSERT_TRUE(peer.Send(Preface()));
    std::string batch;
    for (std::size_t i = 0; i < kCalls; ++i) {
      batch += Request(static_cast<std::uint32_t>(2 * i + 1), "/test.T/Wait", "request");
      if (batch.size() < 32u << 10 && i + 1 < kCalls) continue;
      ASSERT_TRUE(peer.Send(batch));
      batch.clear();
    }
    arrived_.Await(kCalls);
  }
  // What the cut ends, ends before the server has stopped.
  server_->Shutdown(std::chrono::hours(1));
  EXPECT_EQ(cancelled_, kCalls);
}

TEST_F(CancelLeakTest, TheChannelsGo) {
  StartCalls();
  arrived_.Await(kCalls / 2);
  channels_.clear();
  ended_.Await(kCalls);
  EXPECT_EQ(Ended(Code::kCancelled), kCalls);
}

TEST_F(CancelLeakTest, TheServerStops) {
  StartCalls();
  arrived_.Await(kCalls);
  server_->Shutdown(Duration::zero());
  ended_.Await(kCalls);
  EXPECT_EQ(cancelled_, kCalls);
  EXPECT_EQ(Ended(Code::kUnavailable), kCalls);
}

TEST_F(CancelLeakTest, HandlersFinishWhileTheClientCancels) {
  {
    MutexLock lock(mutex_);
    keep_ = true;
  }
  StartCalls();
  arrived_.Await(kCalls);
  std::thread finishing([this] {
    for (const auto& waiting : kept_) waiting->FinishOnce({});
  });
  for (std::size_t i = kCalls; i-- > 0;) channels_[i % kChannels]->Cancel(ids_[i]);
  finishing.join();
  ended_.Await(kCalls);
  EXPECT_EQ(Ended(Code::kCancelled) + Ended(Code::kOk), kCalls);
}

TEST_F(CancelLeakTest, HandlersFinishWhileTheServerStops) {
  {
    MutexLock lock(mutex_);
    keep_ = true;
  }
  StartCalls();
  arrived_.Await(kCalls);
  std::thread finishing([this] {
    for (const auto& waiting : kept_) waiting->FinishOnce({});
  });
  server_->Shutdown(Duration::zero());
  finishing.join();
  ended_.Await(kCalls);
  EXPECT_EQ(Ended(Code::kUnavailable) + Ended(Code::kOk), kCalls);
}

}  // namespace
}  // namespace millrace::rpc
