#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/connect_backoff.h"
#include "millrace/rpc/raw_peer_test_util.h"

namespace millrace::rpc {
namespace {

constexpr std::uint16_t kMaxConcurrentStreams = 3;
constexpr std::uint16_t kMaxHeaderListSize = 6;

TEST(ConnectBackoff, DoublesWithJitterUpToItsMaximumAndStartsAnew) {
  SeededRandom random(7);
  const Duration min = std::chrono::milliseconds(50);
  const Duration max = std::chrono::seconds(5);
  ConnectBackoff backoff(min, max);
  for (int round = 0; round < 100; ++round) {
    Duration base = min;
    bool spread = false;
    for (int i = 0; i < 12; ++i) {
      const Duration wait = backoff.Next(random);
      EXPECT_GE(wait, base * 8 / 10);
      EXPECT_LE(wait, base * 12 / 10);
      spread = spread || wait != base;
      base = std::min(base * 2, max);
    }
    EXPECT_TRUE(spread);
    backoff.Reset();
  }
}

// A channel's connections against servers that are written out frame by frame.
class ClientConnectionTest : public testing::Test {
 protected:
  ClientConnectionTest() {
    options_.target = listener_.address();
    options_.backoff_min = std::chrono::milliseconds(1);
  }
  void Open() { channel_ = Channel::Create(*loop_, options_); }

  static std::string Setting(std::uint16_t id, std::uint32_t value) {
    return std::string{static_cast<char>(id >> 8), static_cast<char>(id & 255)} + Number32(value);
  }
  std::unique_ptr<RawPeer> Accept(const std::string& settings = "") {
    auto peer = std::make_unique<RawPeer>(listener_.Accept());
    peer->Send(Frame(frame::kSettings, 0, 0, settings));
    return peer;
  }
  std::future<CallResult> Call(CallOptions options = {}, Channel::CallId* id = nullptr) {
    auto promise = std::make_shared<std::promise<CallResult>>();
    const Channel::CallId call =
        channel_->Call("/a.B/C", "request", std::move(options),
                       [promise](CallResult result) { promise->set_value(std::move(result)); });
    if (id != nullptr) *id = call;
    return promise->get_future();
  }
  static std::string Headers(std::uint32_t stream, const Fields& fields, bool end = false) {
    return Frame(frame::kHeaders, frame::kEndHeaders | (end ? frame::kEndStream : 0), stream,
                 HeaderBlock(fields));
  }
  static std::string Reply(std::uint32_t stream, const std::string& message) {
    return Headers(stream, {{":status", "200"}, {"content-type", "application/grpc"}}) +
           Frame(frame::kData, 0, stream, GrpcMessage(message)) +
           Headers(stream, {{"grpc-status", "0"}}, true);
  }
  // Everything the client had to say until now has arrived at the peer afterwards.
  static void RoundTrip(RawPeer& peer) {
    const int acks = peer.received().ping_acks;
    peer.Send(Frame(frame::kPing, 0, 0, "12345678"));
    peer.ReadUntil([acks](const Received& r) { return r.ping_acks > acks; });
  }
  // Time as the client's timers see it has passed.
  void LetPass(Duration time) {
    std::promise<void> passed;
    loop_->PostAt(clock_.Now() + time, [&passed] { passed.set_value(); });
    passed.get_future().wait();
  }

  RawListener listener_;
  SystemClock clock_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("client", clock_);
  ChannelOptions options_;
  std::unique_ptr<Channel> channel_;
};

TEST_F(ClientConnectionTest, CallsAboveTheServersLimitWaitTheirTurn) {
  Open();
  std::vector<std::future<CallResult>> results;
  results.push_back(Call());
  const auto peer = Accept(Setting(kMaxConcurrentStreams, 2));
  peer->ReadUntilStreamEnds(1);
  std::vector<Channel::CallId> ids(4);
  for (Channel::CallId& id : ids) results.push_back(Call({}, &id));
  peer->ReadUntilStreamEnds(3);
  RoundTrip(*peer);
  EXPECT_EQ(peer->received().streams.size(), 2u);
  // One that is cancelled while it waits is never seen.
  channel_->Cancel(ids[1]);
  EXPECT_EQ(results[2].get().status.code, Code::kCancelled);
  // A reply makes room for the next, and so does a cancelled call.
  peer->Send(Reply(1, "first"));
  EXPECT_EQ(results[0].get().response, "first");
  peer->ReadUntilStreamEnds(5);
  channel_->Cancel(ids[0]);
  EXPECT_EQ(results[1].get().status.code, Code::kCancelled);
  peer->ReadUntilStreamEnds(7);
  RoundTrip(*peer);
  EXPECT_EQ(peer->received().streams.size(), 4u);
  EXPECT_TRUE(peer->received().streams.at(3).reset);
  peer->Send(Reply(5, "third") + Reply(7, "fourth"));
  EXPECT_EQ(results[3].get().response, "third");
  EXPECT_EQ(results[4].get().response, "fourth");
}

TEST_F(ClientConnectionTest, WaitingCallsStartWhenTheServerTakesMore) {
  Open();
  auto first = Call();
  const auto peer = Accept(Setting(kMaxConcurrentStreams, 1));
  peer->ReadUntilStreamEnds(1);
  auto second = Call();
  RoundTrip(*peer);
  EXPECT_EQ(peer->received().streams.size(), 1u);
  peer->Send(Frame(frame::kSettings, 0, 0, Setting(kMaxConcurrentStreams, 2)));
  peer->ReadUntilStreamEnds(3);
  peer->Send(Reply(3, "b") + Reply(1, "a"));
  EXPECT_EQ(first.get().response, "a");
  EXPECT_EQ(second.get().response, "b");
}

TEST_F(ClientConnectionTest, AWaitingCallsDeadlineEndsIt) {
  Open();
  auto first = Call();
  const auto peer = Accept(Setting(kMaxConcurrentStreams, 1));
  peer->ReadUntilStreamEnds(1);
  CallOptions options;
  options.deadline = clock_.Now() + std::chrono::milliseconds(5);
  EXPECT_EQ(Call(options).get().status.code, Code::kDeadlineExceeded);
  peer->Send(Reply(1, "a"));
  EXPECT_TRUE(first.get().status.ok());
  RoundTrip(*peer);
  EXPECT_EQ(peer->received().streams.size(), 1u);
}

// The server's timer for the same deadline may be the quicker one.
TEST_F(ClientConnectionTest, AStreamThatIsResetAtItsDeadlineHasExceededIt) {
  Open();
  auto other = Call();
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  CallOptions options;
  options.deadline = clock_.Now() + std::chrono::milliseconds(50);
  auto late = Call(options);
  peer->ReadUntilStreamEnds(3);
  // The loop sees the reset and the end of its timer at once.
  std::promise<void> held;
  std::promise<void> sent;
  loop_->Post([&] {
    held.set_value();
    sent.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  });
  held.get_future().wait();
  peer->Send(Frame(frame::kReset, 0, 3, Number32(8)) + Frame(frame::kReset, 0, 1, Number32(8)));
  sent.set_value();
  EXPECT_EQ(late.get().status.code, Code::kDeadlineExceeded);
  EXPECT_EQ(other.get().status.code, Code::kCancelled);
}

TEST_F(ClientConnectionTest, CallsSpreadAndAFullConnectionIsPassedOver) {
  options_.connections_max = 2;
  Open();
  std::vector<std::future<CallResult>> results;
  results.push_back(Call());
  const auto one = Accept(Setting(kMaxConcurrentStreams, 1));
  one->ReadUntilStreamEnds(1);
  // The second connection is made although the first one works.
  const auto two = Accept(Setting(kMaxConcurrentStreams, 2));
  RoundTrip(*two);
  for (int i = 0; i < 3; ++i) results.push_back(Call());
  two->ReadUntilStreamEnds(3);
  RoundTrip(*one);
  RoundTrip(*two);
  EXPECT_EQ(one->received().streams.size(), 1u);
  EXPECT_EQ(two->received().streams.size(), 2u);
  // The last one goes where the first place gets free.
  one->Send(Reply(1, "one"));
  one->ReadUntilStreamEnds(3);
  one->Send(Reply(3, "one"));
  two->Send(Reply(1, "two") + Reply(3, "two"));
  for (auto& result : results) EXPECT_TRUE(result.get().status.ok());
}

TEST_F(ClientConnectionTest, GoAwayLosesAndDoublesNoCall) {
  Open();
  constexpr int kCalls = 50;
  std::vector<std::future<CallResult>> results;
  for (int i = 0; i < kCalls; ++i) results.push_back(Call());
  const auto old = Accept();
  old->ReadUntilStreamEnds(2 * kCalls - 1);
  // As servers do it: a warning first, then the last stream; the calls between were not begun.
  old->Send(Frame(frame::kGoAway, 0, 0, Number32(0x7fffffff) + Number32(0)));
  const std::uint32_t last = 2 * (kCalls / 2) - 1;
  old->Send(Frame(frame::kGoAway, 0, 0, Number32(last) + Number32(0)));
  const auto next = Accept();
  next->ReadUntilStreamEnds(2 * (kCalls / 2) - 1);
  std::string replies;
  for (std::uint32_t stream = 1; stream <= last; stream += 2) replies += Reply(stream, "old");
  old->Send(replies);
  replies.clear();
  for (const auto& [stream, unused] : next->received().streams) replies += Reply(stream, "new");
  next->Send(replies);
  int by_old = 0;
  int by_new = 0;
  for (auto& result : results) {
    const CallResult r = result.get();
    by_old += r.response == "old" ? 1 : 0;
    by_new += r.response == "new" ? 1 : 0;
  }
  EXPECT_EQ(by_old, kCalls / 2);
  EXPECT_EQ(by_new, kCalls / 2);
  EXPECT_EQ(next->received().streams.size(), static_cast<std::size_t>(kCalls / 2));
  old->ReadUntilClosed();
}

TEST_F(ClientConnectionTest, CallsWaitForAServerThatIsNotThereYet) {
  CallOptions patient;
  patient.wait_for_ready = true;
  Open();
  // Accepted, and closed before it speaks, again and again.
  auto waiting = Call(patient);
  for (int i = 0; i < 3; ++i) RawPeer(listener_.Accept()).Close();
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Reply(1, "at last"));
  EXPECT_EQ(waiting.get().response, "at last");
}

TEST_F(ClientConnectionTest, AFailingConnectionFailsNoCallThatAnotherMayTake) {
  options_.connections_max = 2;
  options_.backoff_min = std::chrono::hours(1);
  Open();
  auto call = Call();
  RawPeer silent(listener_.Accept());
  auto other = std::make_unique<RawPeer>(listener_.Accept());
  other->Close();
  silent.Send(Frame(frame::kSettings, 0, 0, ""));
  silent.ReadUntilStreamEnds(1);
  silent.Send(Reply(1, "a"));
  EXPECT_EQ(call.get().response, "a");
}

TEST_F(ClientConnectionTest, AServerThatDoesNotAnswerPingsIsDead) {
  options_.keepalive_time = std::chrono::milliseconds(5);
  options_.keepalive_timeout = std::chrono::milliseconds(5);
  Open();
  auto result = Call();
  const auto peer = Accept();
  const CallResult lost = result.get();
  EXPECT_EQ(lost.status.code, Code::kUnavailable);
  EXPECT_NE(lost.status.message.find("does not answer"), std::string::npos) << lost.status.message;
  peer->ReadUntilClosed();
  EXPECT_EQ(peer->received().pings, 1);
}

TEST_F(ClientConnectionTest, AServerThatAnswersPingsIsNotDead) {
  options_.keepalive_time = std::chrono::milliseconds(5);
  options_.keepalive_timeout = std::chrono::hours(1);
  Open();
  auto result = Call();
  const auto peer = Accept();
  for (int pings = 1; pings <= 5; ++pings) {
    peer->ReadUntil([pings](const Received& r) { return r.pings >= pings; });
    peer->Send(Frame(frame::kPing, frame::kAck, 0, std::string(8, '\0')));
  }
  peer->Send(Reply(1, "alive"));
  EXPECT_EQ(result.get().response, "alive");
}

TEST_F(ClientConnectionTest, WithoutCallsThereAreNoPings) {
  options_.keepalive_time = std::chrono::milliseconds(5);
  options_.keepalive_timeout = std::chrono::hours(1);
  Open();
  auto result = Call();
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Frame(frame::kPing, frame::kAck, 0, std::string(8, '\0')) + Reply(1, "a"));
  EXPECT_TRUE(result.get().status.ok());
  RoundTrip(*peer);
  // One may have been under way when the call ended.
  LetPass(std::chrono::milliseconds(20));
  RoundTrip(*peer);
  const int before = peer->received().pings;
  LetPass(std::chrono::milliseconds(100));
  RoundTrip(*peer);
  EXPECT_EQ(peer->received().pings, before);
  // The next call is watched again.
  auto again = Call();
  peer->ReadUntil([before](const Received& r) { return r.pings > before; });
}

TEST_F(ClientConnectionTest, AnIdleConnectionIsClosedAndMadeAnewForTheNextCall) {
  options_.idle_timeout = std::chrono::milliseconds(5);
  Open();
  auto first = Call();
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  // Not idle while a call is open.
  LetPass(std::chrono::milliseconds(50));
  peer->Send(Reply(1, "a"));
  EXPECT_EQ(first.get().response, "a");
  peer->ReadUntilClosed();
  EXPECT_TRUE(peer->received().go_away);
  EXPECT_EQ(peer->received().go_away_code, 0u);
  auto second = Call();
  const auto next = Accept();
  next->ReadUntilStreamEnds(1);
  next->Send(Reply(1, "b"));
  EXPECT_EQ(second.get().response, "b");
}

TEST_F(ClientConnectionTest, HeadersAboveTheServersLimitAreNotSent) {
  Open();
  auto first = Call();
  const auto peer = Accept(Setting(kMaxHeaderListSize, 1'000));
  peer->ReadUntilStreamEnds(1);
  CallOptions options;
  options.metadata = {{"large", std::string(1'000, 'x')}};
  const CallResult result = Call(options).get();
  EXPECT_EQ(result.status.code, Code::kResourceExhausted);
  auto third = Call();
  peer->ReadUntilStreamEnds(3);
  EXPECT_EQ(peer->received().streams.size(), 2u);
  peer->Send(Reply(3, "c") + Reply(1, "a"));
  EXPECT_TRUE(third.get().status.ok());
  EXPECT_TRUE(first.get().status.ok());
}

TEST_F(ClientConnectionTest, ResponseHeadersAboveOurLimitEndTheCall) {
  options_.header_list_bytes_max = 500;
  Open();
  auto result = Call();
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Headers(1, {{":status", "200"},
                         {"content-type", "application/grpc"},
                         {"large", std::string(500, 'x')}}));
  EXPECT_EQ(result.get().status.code, Code::kResourceExhausted);
  // Trailers have a limit of their own.
  auto second = Call();
  peer->ReadUntilStreamEnds(3);
  peer->Send(Headers(3, {{":status", "200"},
                         {"content-type", "application/grpc"},
                         {"h", std::string(300, 'x')}}) +
             Frame(frame::kData, 0, 3, GrpcMessage("m")) +
             Headers(3, {{"grpc-status", "0"}, {"t", std::string(300, 'x')}}, true));
  EXPECT_TRUE(second.get().status.ok());
}

}  // namespace
}  // namespace millrace::rpc
