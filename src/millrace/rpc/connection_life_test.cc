#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kEcho = "/test.Echo/Echo";
constexpr const char* kPark = "/test.Echo/Park";
constexpr std::uint32_t kAnyStream = 0x7fffffff;
constexpr std::uint32_t kEnhanceYourCalm = 11;

// A clock that a test sets while loops look at it. Thread: any.
class SetClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override { return Instant{now_ns_.load()}; }
  [[nodiscard]] WallTime WallNow() const override { return WallTime{now_ns_.load()}; }
  void Advance(Duration d) { now_ns_ += d.count(); }

 private:
  std::atomic<std::int64_t> now_ns_ = 1'000'000'000;
};

// One server on a clock that stands still, and one raw client. Nothing waits for real time.
class ConnectionLifeTest : public testing::Test {
 protected:
  void Start(const ServerOptions& changed) {
    ServerOptions options = changed;
    options.listen = {"127.0.0.1:0"};
    ServiceTable services;
    services.unary[kEcho] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(std::string(call->request()));
    };
    services.unary[kPark] = [this](std::unique_ptr<ServerCall> call) {
      ServerCall& parked = *call;
      parked.OnCancel([this] {
        MutexLock lock(mutex_);
        cancelled_ = true;
        parked_ = nullptr;
        changed_.NotifyAll();
      });
      MutexLock lock(mutex_);
      parked_ = std::move(call);
      changed_.NotifyAll();
    };
    server_ = Server::Create({loop_.get()}, options, std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
    peer_ = std::make_unique<RawPeer>(server_->addresses().front());
    peer_->Send(Preface());
    RoundTrip();
  }

  void TearDown() override { server_->Shutdown(Duration::zero()); }

  // Moves the time; what was due has run when this returns.
  void Advance(Duration d) {
    clock_.Advance(d);
    std::promise<void> done;
    loop_->Post([&done] { done.set_value(); });
    done.get_future().wait();
  }

  // An answered call: whatever the server sent before is here now.
  void RoundTrip() {
    peer_->Send(Request(next_stream_, kEcho, "still here"));
    const Received& received = peer_->ReadUntilStreamEnds(next_stream_);
    ASSERT_TRUE(received.streams.contains(next_stream_));
    EXPECT_EQ(received.streams.at(next_stream_).Field("grpc-status"), "0");
    next_stream_ += 2;
  }

  std::uint32_t Park() {
    peer_->Send(Request(next_stream_, kPark, ""));
    MutexLock lock(mutex_);
    while (parked_ == nullptr) changed_.Wait(mutex_);
    return std::exchange(next_stream_, next_stream_ + 2);
  }
  void FinishParked() {
    std::unique_ptr<ServerCall> call;
    {
      MutexLock lock(mutex_);
      call = std::move(parked_);
    }
    std::promise<void> done;
    loop_->Post([&call, &done] {
      call->FinishOk("");
      call = nullptr;
      done.set_value();
    });
    done.get_future().wait();
  }
  void ExpectCancelled() {
    MutexLock lock(mutex_);
    while (!cancelled_) changed_.Wait(mutex_);
  }

  void AnswerPing() {
    peer_->Send(Frame(frame::kPing, frame::kAck, 0, peer_->received().last_ping));
  }

  SetClock clock_;
  NullLog log_;
  Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<ServerCall> parked_ MR_GUARDED_BY(mutex_);
  bool cancelled_ MR_GUARDED_BY(mutex_) = false;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<Server> server_;
  std::unique_ptr<RawPeer> peer_;
  std::uint32_t next_stream_ = 1;
};

TEST_F(ConnectionLifeTest, AnOldConnectionIsToldToGoAndItsCallsEnd) {
  ServerOptions options;
  options.connection_age_max = minutes(10);
  options.keepalive_time = Duration::zero();
  Start(options);
  Advance(minutes(9) - seconds(1));
  RoundTrip();
  EXPECT_FALSE(peer_->received().go_away);
  const std::uint32_t parked = Park();
  Advance(minutes(2) + seconds(2));
  peer_->ReadUntil([](const Received& r) { return r.go_away && r.pings > 0; });
  // New calls pass until the client has seen it.
  EXPECT_EQ(peer_->received().go_away_code, 0u);
  EXPECT_EQ(peer_->received().go_away_last_stream, kAnyStream);
  RoundTrip();
  AnswerPing();
  peer_->ReadUntil([](const Received& r) { return r.go_away_last_stream != kAnyStream; });
  EXPECT_EQ(peer_->received().go_away_last_stream, next_stream_ - 2);
  FinishParked();
  EXPECT_TRUE(peer_->ReadUntilClosed().closed);
  EXPECT_EQ(peer_->received().streams.at(parked).Field("grpc-status"), "0");
}

TEST_F(ConnectionLifeTest, CallsThatOutliveTheGraceAreEnded) {
  ServerOptions options;
  options.connection_age_max = minutes(10);
  options.connection_age_grace = minutes(3);
  options.keepalive_time = Duration::zero();
  Start(options);
  const std::uint32_t parked = Park();
  Advance(minutes(11) + seconds(1));
  peer_->ReadUntil([](const Received& r) { return r.pings > 0; });
  AnswerPing();
  Advance(minutes(3) - seconds(1));
  peer_->ReadUntil([](const Received& r) { return r.go_away_last_stream != kAnyStream; });
  EXPECT_FALSE(peer_->received().streams.contains(parked));
  Advance(seconds(1));
  EXPECT_TRUE(peer_->ReadUntilClosed().closed);
  ExpectCancelled();
  EXPECT_EQ(peer_->received().streams.at(parked).Field("grpc-status"), "14");
  EXPECT_EQ(peer_->received().streams.at(parked).Field("grpc-message"),
            "the connection has reached its greatest age");
}

TEST_F(ConnectionLifeTest, ASilentPeerIsAskedAndWhatAnswersLives) {
  ServerOptions options;
  options.keepalive_time = minutes(1);
  options.keepalive_timeout = seconds(20);
  Start(options);
  Park();
  // What came before counts for this one.
  Advance(minutes(1));
  for (int round = 1; round <= 5; ++round) {
    Advance(minutes(1));
    peer_->ReadUntil([round](const Received& r) { return r.pings == round; });
    AnswerPing();
    RoundTrip();
    Advance(seconds(20));
  }
  RoundTrip();
  EXPECT_FALSE(peer_->received().go_away);
  FinishParked();
}

TEST_F(ConnectionLifeTest, AHalfOpenPeerIsFoundAndItsCallsAreCancelled) {
  ServerOptions options;
  options.keepalive_time = minutes(1);
  options.keepalive_timeout = seconds(20);
  Start(options);
  Park();
  Advance(minutes(1));
  Advance(minutes(1));
  peer_->ReadUntil([](const Received& r) { return r.pings > 0; });
  Advance(seconds(20));
  ExpectCancelled();
  EXPECT_TRUE(peer_->ReadUntilClosed().closed);
}

TEST_F(ConnectionLifeTest, ABusyPeerIsNotAsked) {
  ServerOptions options;
  options.keepalive_time = minutes(1);
  Start(options);
  for (int i = 0; i < 10; ++i) {
    Advance(minutes(1));
    RoundTrip();
  }
  EXPECT_EQ(peer_->received().pings, 0);
}

TEST_F(ConnectionLifeTest, AnIdleConnectionIsClosedThoughTheClientSaysNothing) {
  ServerOptions options;
  options.idle_timeout = minutes(5);
  options.keepalive_time = Duration::zero();
  options.keepalive_timeout = seconds(20);
  Start(options);
  Advance(minutes(5));
  Advance(minutes(5));
  peer_->ReadUntil([](const Received& r) { return r.pings > 0; });
  EXPECT_TRUE(peer_->received().go_away);
  Advance(seconds(20));
  peer_->ReadUntil([](const Received& r) { return r.go_away_last_stream != kAnyStream; });
  peer_->FinishSending();
  EXPECT_TRUE(peer_->ReadUntilClosed().closed);
}

TEST_F(ConnectionLifeTest, AConnectionWithACallIsNotIdle) {
  ServerOptions options;
  options.idle_timeout = minutes(5);
  options.keepalive_time = Duration::zero();
  Start(options);
  Park();
  for (int i = 0; i < 10; ++i) Advance(minutes(5));
  RoundTrip();
  EXPECT_FALSE(peer_->received().go_away);
  FinishParked();
}

TEST_F(ConnectionLifeTest, PingsAreRationedAsTheOptionsSay) {
  ServerOptions options;
  options.ping_interval_min = minutes(5);
  options.ping_only_with_calls = true;
  options.keepalive_time = Duration::zero();
  Start(options);
  const std::string ping = Frame(frame::kPing, 0, 0, "12345678");
  Park();
  int acks = 0;
  const auto ping_and_wait = [&] {
    peer_->Send(ping);
    ++acks;
    peer_->ReadUntil([&acks](const Received& r) { return r.go_away || r.ping_acks == acks; });
  };
  for (int i = 0; i < 5; ++i) {
    ping_and_wait();
    Advance(minutes(5));
  }
  EXPECT_FALSE(peer_->received().go_away);
  FinishParked();
  peer_->ReadUntilStreamEnds(next_stream_ - 2);
  // Now without a call: the first one may come, the next within hours may not.
  for (int i = 0; i < 4; ++i) {
    ping_and_wait();
    Advance(minutes(5));
  }
  EXPECT_TRUE(peer_->ReadUntilClosed().closed);
  EXPECT_EQ(peer_->received().go_away_code, kEnhanceYourCalm);
  EXPECT_EQ(peer_->received().go_away_text, "too_many_pings");
}

}  // namespace
}  // namespace millrace::rpc
