#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/raw_peer_test_util.h"

namespace millrace::rpc {
namespace {

// The channel against a server that is written out frame by frame.
class HostileServerTest : public testing::Test {
 protected:
  std::unique_ptr<Channel> NewChannel() {
    ChannelOptions options;
    options.target = listener_.address();
    options.receive_message_bytes_max = 1000;
    options.backoff_min = std::chrono::milliseconds(1);
    return Channel::Create(*loop_, options);
  }

  std::unique_ptr<RawPeer> Accept() {
    auto peer = std::make_unique<RawPeer>(listener_.Accept());
    peer->Send(Frame(frame::kSettings, 0, 0, ""));
    return peer;
  }

  static std::future<CallResult> Call(Channel& channel, CallOptions options = {}) {
    auto promise = std::make_shared<std::promise<CallResult>>();
    channel.Call("/a.B/C", "request", std::move(options),
                 [promise](CallResult result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }

  static std::string Reply(std::uint32_t stream, const std::string& message) {
    return Headers(stream, {{":status", "200"}, {"content-type", "application/grpc"}}) +
           Frame(frame::kData, 0, stream, GrpcMessage(message)) +
           Headers(stream, {{"grpc-status", "0"}}, true);
  }
  static std::string Headers(std::uint32_t stream, const Fields& fields, bool end = false) {
    return Frame(frame::kHeaders, frame::kEndHeaders | (end ? frame::kEndStream : 0), stream,
                 HeaderBlock(fields));
  }

  // What a call ends with when the server answers it with `bytes`.
  CallResult ResultOf(const std::string& bytes) {
    const auto channel = NewChannel();
    auto result = Call(*channel);
    const auto peer = Accept();
    peer->ReadUntilStreamEnds(1);
    peer->Send(bytes);
    return result.get();
  }

  RawListener listener_;
  SystemClock clock_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("client", clock_);
};

TEST_F(HostileServerTest, SendsWhatTheProtocolAsksFor) {
  const auto channel = NewChannel();
  CallOptions options;
  options.deadline = clock_.Now() + std::chrono::seconds(20);
  options.metadata = {{"key-bin", "\xff"}};
  auto result = Call(*channel, options);
  const auto peer = Accept();
  const Received::Stream stream = peer->ReadUntilStreamEnds(1).streams.at(1);
  EXPECT_EQ(stream.Field(":method"), "POST");
  EXPECT_EQ(stream.Field(":scheme"), "http");
  EXPECT_EQ(stream.Field(":path"), "/a.B/C");
  EXPECT_EQ(stream.Field(":authority"), listener_.address());
  EXPECT_EQ(stream.Field("te"), "trailers");
  EXPECT_EQ(stream.Field("content-type"), "application/grpc");
  EXPECT_EQ(stream.Field("key-bin"), "/w");
  EXPECT_TRUE(stream.Field("grpc-timeout").ends_with("u")) << stream.Field("grpc-timeout");
  EXPECT_EQ(stream.data, GrpcMessage("request"));
  peer->Send(Reply(1, "good"));
  EXPECT_EQ(result.get().response, "good");
}

TEST_F(HostileServerTest, BadRepliesEndTheCallWithTheRightCode) {
  const Fields ok = {{":status", "200"}, {"content-type", "application/grpc"}};
  const auto code = [this](const std::string& bytes) { return ResultOf(bytes).status.code; };
  EXPECT_EQ(code(Headers(1, {{":status", "503"}}, true)), Code::kUnavailable);
  EXPECT_EQ(code(Headers(1, {{":status", "404"}, {"content-type", "text/html"}}) +
                 Frame(frame::kData, frame::kEndStream, 1, "<html>")),
            Code::kUnimplemented);
  EXPECT_EQ(code(Headers(1, ok, true)), Code::kUnknown);
  EXPECT_EQ(code(Headers(1, ok) + Headers(1, {{"grpc-status", "0"}}, true)), Code::kInternal);
  EXPECT_EQ(code(Headers(1, ok) + Frame(frame::kData, 0, 1, GrpcMessage("x", 1)) +
                 Headers(1, {{"grpc-status", "0"}}, true)),
            Code::kInternal);
  EXPECT_EQ(code(Headers(1, ok) + Frame(frame::kData, 0, 1, GrpcMessage("x") + GrpcMessage("y")) +
                 Headers(1, {{"grpc-status", "0"}}, true)),
            Code::kInternal);
  EXPECT_EQ(code(Headers(1, ok) + Frame(frame::kData, 0, 1, GrpcMessage(std::string(1001, 'x')))),
            Code::kResourceExhausted);
  EXPECT_EQ(code(Headers(1, ok) + Headers(1, {{"grpc-status", "77"}}, true)), Code::kUnknown);
  EXPECT_EQ(code(Frame(frame::kReset, 0, 1, Number32(8))), Code::kCancelled);
  EXPECT_EQ(code(Frame(frame::kReset, 0, 1, Number32(11))), Code::kResourceExhausted);
  EXPECT_EQ(code(Frame(frame::kReset, 0, 1, Number32(2))), Code::kInternal);
  EXPECT_EQ(code("no HTTP/2 frame at all, but long enough to be taken for one"),
            Code::kUnavailable);
}

TEST_F(HostileServerTest, UnpacksGzip) {
  const CallResult result = ResultOf(Headers(1, {{":status", "200"},
                                                 {"content-type", "application/grpc"},
                                                 {"grpc-encoding", "gzip"}}) +
                                     Frame(frame::kData, 0, 1, GrpcMessage(Gzip("packed"), 1)) +
                                     Headers(1, {{"grpc-status", "0"}}, true));
  EXPECT_TRUE(result.status.ok()) << result.status.message;
  EXPECT_EQ(result.response, "packed");
}

TEST_F(HostileServerTest, ARefusedStreamIsSentAgain) {
  const auto channel = NewChannel();
  auto result = Call(*channel);
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Frame(frame::kReset, 0, 1, Number32(7)));
  peer->ReadUntilStreamEnds(3);
  peer->Send(Reply(3, "second try"));
  EXPECT_EQ(result.get().response, "second try");
}

TEST_F(HostileServerTest, AStreamRefusedForEverIsGivenUp) {
  const auto channel = NewChannel();
  auto result = Call(*channel);
  const auto peer = Accept();
  for (std::uint32_t stream = 1; stream <= 9; stream += 2) {
    peer->ReadUntilStreamEnds(stream);
    peer->Send(Frame(frame::kReset, 0, stream, Number32(7)));
  }
  EXPECT_EQ(result.get().status.code, Code::kUnavailable);
}

TEST_F(HostileServerTest, OnGoAwayOnlyCallsAboveItsStreamAreSentAgain) {
  const auto channel = NewChannel();
  auto first = Call(*channel);
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  auto second = Call(*channel);
  peer->ReadUntilStreamEnds(3);
  peer->Send(Frame(frame::kGoAway, 0, 0, Number32(1) + Number32(0)));
  const auto next = Accept();
  next->ReadUntilStreamEnds(1);
  next->Send(Reply(1, "on the new one"));
  EXPECT_EQ(second.get().response, "on the new one");
  peer->Send(Reply(1, "on the old one"));
  EXPECT_EQ(first.get().response, "on the old one");
}

TEST_F(HostileServerTest, ACallTheServerMayKnowIsNeverSentAgain) {
  const auto channel = NewChannel();
  auto result = Call(*channel);
  auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer = nullptr;
  EXPECT_EQ(result.get().status.code, Code::kUnavailable);
  // The next call finds a new connection, and only itself on it.
  auto other = Call(*channel);
  peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Reply(1, "new"));
  EXPECT_EQ(other.get().response, "new");
  EXPECT_EQ(peer->received().streams.size(), 1u);
}

TEST_F(HostileServerTest, AServerThatNeverSpeaksFailsCallsAfterTheConnectTimeout) {
  ChannelOptions options;
  options.target = listener_.address();
  options.connect_timeout = std::chrono::milliseconds(20);
  options.backoff_min = std::chrono::hours(1);
  const auto channel = Channel::Create(*loop_, options);
  auto result = Call(*channel);
  const RawPeer silent(listener_.Accept());
  EXPECT_EQ(result.get().status.code, Code::kUnavailable);
  // During back-off calls fail at once, unless they are ready to wait.
  EXPECT_EQ(Call(*channel).get().status.code, Code::kUnavailable);
  CallOptions patient;
  patient.wait_for_ready = true;
  patient.deadline = clock_.Now() + std::chrono::milliseconds(10);
  EXPECT_EQ(Call(*channel, patient).get().status.code, Code::kDeadlineExceeded);
}

TEST_F(HostileServerTest, DestructionEndsCallsInEveryState) {
  auto channel = NewChannel();
  auto sent = Call(*channel);
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  auto queued = Call(*channel);
  channel = nullptr;
  EXPECT_EQ(sent.get().status.code, Code::kCancelled);
  EXPECT_EQ(queued.get().status.code, Code::kCancelled);
  // Before it ever connected.
  channel = NewChannel();
  auto waiting = Call(*channel);
  channel = nullptr;
  EXPECT_EQ(waiting.get().status.code, Code::kCancelled);
}

TEST_F(HostileServerTest, ACancelledCallIsResetAndItsLateReplyIgnored) {
  const auto channel = NewChannel();
  std::promise<CallResult> result;
  const Channel::CallId id =
      channel->Call("/a.B/C", "x", {}, [&result](CallResult r) { result.set_value(std::move(r)); });
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  channel->Cancel(id);
  EXPECT_EQ(result.get_future().get().status.code, Code::kCancelled);
  peer->ReadUntil([](const Received& r) { return r.streams.at(1).reset; });
  EXPECT_EQ(peer->received().streams.at(1).reset_code, 8u);
  peer->Send(Reply(1, "too late"));
  auto next = Call(*channel);
  peer->ReadUntilStreamEnds(3);
  peer->Send(Reply(3, "in time"));
  EXPECT_EQ(next.get().response, "in time");
}

TEST_F(HostileServerTest, ANameIsResolvedOffTheLoop) {
  ChannelOptions options;
  options.target = "localhost:" + listener_.address().substr(listener_.address().rfind(':') + 1);
  const auto channel = Channel::Create(*loop_, options);
  auto result = Call(*channel);
  const auto peer = Accept();
  peer->ReadUntilStreamEnds(1);
  peer->Send(Reply(1, "found"));
  EXPECT_EQ(result.get().response, "found");
}

TEST_F(HostileServerTest, ABadTargetFailsCallsWithTheReason) {
  ChannelOptions options;
  options.target = "no port here";
  const auto channel = Channel::Create(*loop_, options);
  const CallResult result = Call(*channel).get();
  EXPECT_EQ(result.status.code, Code::kUnavailable);
  EXPECT_NE(result.status.message.find("is no address"), std::string::npos)
      << result.status.message;
}

}  // namespace
}  // namespace millrace::rpc
