#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

// HTTP/2 error codes.
constexpr std::uint32_t kNoError = 0;
constexpr std::uint32_t kProtocolError = 1;
constexpr std::uint32_t kFlowControlError = 3;
constexpr std::uint32_t kStreamClosed = 5;
constexpr std::uint32_t kRefusedStream = 7;
constexpr std::uint32_t kEnhanceYourCalm = 11;

constexpr const char* kEcho = "/test.Echo/Echo";
constexpr const char* kPark = "/test.Echo/Park";
constexpr const char* kBig = "/test.Echo/Big";

// Each test ends with a proof that the server still serves well-behaved clients and has forgotten
// the others.
class HostileClientTest : public testing::Test {
 protected:
  void StartServer(ServerOptions options) {
    options.listen = {"127.0.0.1:0"};
    ServiceTable services;
    services.unary[kEcho] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(std::string(call->request()));
    };
    services.unary[kPark] = [this](std::unique_ptr<ServerCall> call) {
      ++parked_;
      ServerCall& parked = *call;
      parked.OnCancel([this, call = std::move(call)] {
        call->Finish({Code::kCancelled, {}, {}}, {});
        --parked_;
      });
    };
    services.unary[kBig] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(std::string(1 << 20, 'b'));
    };
    services.streaming["/test.Echo/Large"] = [this](std::unique_ptr<ServerStream> stream) {
      ServerStream& writing = *stream;
      writing.Write(std::string(100'000, 'b'), [this, stream = std::move(stream)](bool more) {
        EXPECT_TRUE(more);
        stream->Finish({});
        loop_->Post([this] { large_finished_.set_value(); });  // Behind what Finish posted.
      });
    };
    services.streaming["/test.Echo/Stuck"] = [this](std::unique_ptr<ServerStream> stream) {
      MutexLock lock(mutex_);
      stuck_.push_back(std::move(stream));
    };
    server_ = Server::Create({loop_.get()}, options, std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    ExpectServes();
    {
      MutexLock lock(mutex_);
      stuck_.clear();
    }
    server_->Shutdown(Duration::zero());
    EXPECT_EQ(parked_, 0);
  }

  void ExpectServes() {
    RawPeer peer(server_->addresses().front());
    peer.Send(Preface() + Request(1, kEcho, "well"));
    const Received& received = peer.ReadUntilStreamEnds(1);
    EXPECT_EQ(received.streams.at(1).Field("grpc-status"), "0");
    EXPECT_EQ(received.streams.at(1).data, GrpcMessage("well"));
  }

  std::unique_ptr<RawPeer> NewPeer() {
    return std::make_unique<RawPeer>(server_->addresses().front());
  }

  // Sends one request made of these fields and this body, and returns the stream as answered.
  Received::Stream Answer(const Fields& fields, const std::string& body) {
    const auto peer = NewPeer();
    peer->Send(Preface() + Frame(frame::kHeaders, frame::kEndHeaders, 1, HeaderBlock(fields)) +
               Frame(frame::kData, frame::kEndStream, 1, body));
    const Received& received = peer->ReadUntilStreamEnds(1);
    const auto it = received.streams.find(1);
    EXPECT_TRUE(it != received.streams.end());
    return it == received.streams.end() ? Received::Stream{} : it->second;
  }

  SystemClock clock_;
  NullLog log_;
  std::atomic<int> parked_ = 0;
  std::promise<void> large_finished_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ServerStream>> stuck_ MR_GUARDED_BY(mutex_);
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<Server> server_;
};

TEST_F(HostileClientTest, AnotherProtocolIsClosed) {
  StartServer({});
  for (const std::string text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01",
                                 "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n"}) {
    const auto peer = NewPeer();
    peer->Send(text + std::string(64, '\0'));
    EXPECT_TRUE(peer->ReadUntilClosed().closed);
  }
}

TEST_F(HostileClientTest, GarbageAfterThePrefaceEndsTheConnectionOnly) {
  StartServer({});
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    std::string bytes(1 + random.Below(3000), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    const auto peer = NewPeer();
    peer->Send(Preface() + bytes);
    peer->FinishSending();
    EXPECT_TRUE(peer->ReadUntilClosed().closed);
  }
}

TEST_F(HostileClientTest, FlippedBitsEndWhatTheyTouch) {
  StartServer({});
  const std::string good =
      Preface() + Request(1, kEcho, "hello", {{"x-bin", "Zm9v"}, {"grpc-timeout", "5S"}}) +
      Request(3, kPark, "wait", {{"grpc-timeout", "1H"}}) + Frame(frame::kPing, 0, 0, "12345678") +
      Request(5, kEcho, "more") + Frame(frame::kReset, 0, 3, Number32(8));
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SeededRandom random(seed);
    std::string bytes = good;
    for (std::uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
    }
    const auto peer = NewPeer();
    peer->Send(bytes);
    peer->FinishSending();
    EXPECT_TRUE(peer->ReadUntilClosed().closed);
  }
}

TEST_F(HostileClientTest, AConnectionCutAtEveryByteLeavesNothingBehind) {
  StartServer({});
  const std::string good =
      Preface() + Request(1, kPark, "hello", {{"x-bin", "Zm9v"}, {"grpc-timeout", "1H"}});
  for (std::size_t size = 0; size <= good.size(); ++size) {
    const auto peer = NewPeer();
    peer->Send(good.substr(0, size));
    peer->Close();
  }
}

TEST_F(HostileClientTest, BadHeadersGetTheErrorThatTheSpecificationNames) {
  StartServer({});
  const std::string body = GrpcMessage("x");
  Fields fields = RequestFields(kEcho);
  fields[5].second = "application/json";
  Received::Stream answer = Answer(fields, body);
  EXPECT_EQ(answer.Field(":status"), "415");
  fields = RequestFields(kEcho);
  fields[0].second = "GET";
  EXPECT_EQ(Answer(fields, body).Field(":status"), "405");
  answer = Answer(RequestFields("/no.Such/Method"), body);
  EXPECT_EQ(answer.Field(":status"), "200");
  EXPECT_EQ(answer.Field("grpc-status"), "12");
  answer = Answer(RequestFields(kEcho, {{"grpc-timeout", "5x"}}), body);
  EXPECT_EQ(answer.Field(":status"), "400");
  EXPECT_EQ(answer.Field("grpc-status"), "13");
  EXPECT_EQ(answer.Field("grpc-message"), "malformed grpc-timeout");
  answer = Answer(RequestFields(kEcho, {{"key-bin", "!!!"}}), body);
  EXPECT_EQ(answer.Field("grpc-status"), "13");
  answer = Answer(RequestFields(kEcho, {{"grpc-encoding", "snappy"}}), body);
  EXPECT_EQ(answer.Field("grpc-status"), "12");
  EXPECT_EQ(answer.Field("grpc-accept-encoding"), "identity,gzip");
  answer = Answer(RequestFields(kEcho, {{"big", std::string(16'000, 'x')}}), body);
  EXPECT_EQ(answer.Field("grpc-status"), "0");
  const auto peer = NewPeer();
  const std::string block = HeaderBlock(
      RequestFields(kEcho, {{"big", std::string(15'000, 'x')}, {"big", std::string(15'000, 'x')}}));
  peer->Send(Preface() + Frame(frame::kHeaders, frame::kEndStream, 1, block.substr(0, 16'000)) +
             Frame(frame::kContinuation, frame::kEndHeaders, 1, block.substr(16'000)));
  answer = peer->ReadUntilStreamEnds(1).streams.at(1);
  EXPECT_EQ(answer.Field(":status"), "431");
  EXPECT_EQ(answer.Field("grpc-status"), "8");
}

TEST_F(HostileClientTest, BadBodiesGetTheErrorThatTheSpecificationNames) {
  ServerOptions options;
  options.receive_message_bytes_max = 100'000;
  StartServer(options);
  const auto status = [this](const std::string& body, const Fields& more = {}) {
    return Answer(RequestFields(kEcho, more), body).Field("grpc-status");
  };
  EXPECT_EQ(status(GrpcMessage("x")), "0");
  EXPECT_EQ(status(""), "13");
  EXPECT_EQ(status(GrpcMessage("x") + GrpcMessage("y")), "13");
  EXPECT_EQ(status(GrpcMessage("x") + std::string(1, 0)), "13");
  EXPECT_EQ(status(GrpcMessage("xyz").substr(0, 7)), "13");
  EXPECT_EQ(status(GrpcMessage("x", 2)), "13");
  EXPECT_EQ(status(GrpcMessage("x", 1)), "13");
  EXPECT_EQ(status(std::string("\0\0\1\x86\xa1", 5)), "8");  // 100,001 bytes promised.
  const Fields gzip = {{"grpc-encoding", "gzip"}};
  EXPECT_EQ(status(GrpcMessage(Gzip("packed"), 1), gzip), "0");
  EXPECT_EQ(status(GrpcMessage("plain"), gzip), "0");
  EXPECT_EQ(status(GrpcMessage("not packed", 1), gzip), "13");
  EXPECT_EQ(status(GrpcMessage(Gzip(std::string(100'001, 'x')), 1), gzip), "8");
  EXPECT_EQ(status(GrpcMessage(Gzip(std::string(5'000'000, 'x')), 1), gzip), "8");
}

TEST_F(HostileClientTest, ResetFloodIsCutOff) {
  StartServer({});
  const auto peer = NewPeer();
  peer->Send(Preface());
  std::uint32_t stream = 1;
  bool open = true;
  for (int i = 0; i < 2000 && open; ++i) {
    std::string batch;
    for (int j = 0; j < 20; ++j, stream += 2) {
      batch += Request(stream, kPark, "x") + Frame(frame::kReset, 0, stream, Number32(8));
    }
    open = peer->Send(batch);
  }
  peer->ReadUntilClosed();
  EXPECT_TRUE(peer->received().closed);
}

TEST_F(HostileClientTest, ContinuationFloodIsCutOff) {
  StartServer({});
  const auto peer = NewPeer();
  peer->Send(Preface() + Frame(frame::kHeaders, 0, 1, HeaderBlock(RequestFields(kEcho))));
  for (int i = 0; i < 100'000; ++i) {
    if (!peer->Send(Frame(frame::kContinuation, 0, 1, ""))) break;
  }
  EXPECT_TRUE(peer->ReadUntilClosed().closed);
}

TEST_F(HostileClientTest, FloodsOfFramesWithoutPurposeAreCutOff) {
  StartServer({});
  const std::string floods[] = {
      Frame(frame::kSettings, 0, 0, ""),
      Frame(frame::kData, 0, 1, ""),
      Frame(frame::kPriority, 0, 1, Number32(0) + "x"),
      Frame(frame::kWindowUpdate, 0, 0, Number32(1)),
      Frame(0x77, 0, 0, "unknown"),
  };
  for (const std::string& flood : floods) {
    SCOPED_TRACE(static_cast<int>(flood[3]));
    const auto peer = NewPeer();
    peer->Send(Preface() +
               Frame(frame::kHeaders, frame::kEndHeaders, 1, HeaderBlock(RequestFields(kEcho))));
    for (int i = 0; i < 100'000; ++i) {
      if (!peer->Send(flood)) break;
    }
    EXPECT_TRUE(peer->ReadUntilClosed().closed) << static_cast<int>(flood[3]);
  }
}

TEST_F(HostileClientTest, PingsOfAnIdleConnectionAreRationed) {
  ServerOptions options;
  options.ping_interval_min = std::chrono::hours(1);
  StartServer(options);
  const auto peer = NewPeer();
  peer->Send(Preface() + Request(1, kPark, ""));
  // As often as answers come.
  for (std::uint32_t stream = 3; stream < 43; stream += 2) {
    peer->Send(Request(stream, kEcho, "") + Frame(frame::kPing, 0, 0, "12345678"));
    peer->ReadUntilStreamEnds(stream);
  }
  EXPECT_FALSE(peer->received().go_away);
  for (int i = 0; i < 10; ++i) peer->Send(Frame(frame::kPing, 0, 0, "12345678"));
  const Received& received = peer->ReadUntilClosed();
  EXPECT_TRUE(received.go_away);
  EXPECT_EQ(received.go_away_code, kEnhanceYourCalm);
  EXPECT_EQ(received.go_away_text, "too_many_pings");
}

TEST_F(HostileClientTest, RareKeepalivePingsAreFine) {
  ServerOptions options;
  options.ping_interval_min = Duration(1);
  StartServer(options);
  const auto peer = NewPeer();
  peer->Send(Preface() + Request(1, kPark, ""));
  for (int i = 1; i <= 20; ++i) {
    peer->Send(Frame(frame::kPing, 0, 0, "12345678"));
    peer->ReadUntil([i](const Received& r) { return r.ping_acks == i; });
  }
  EXPECT_FALSE(peer->received().go_away);
}

TEST_F(HostileClientTest, StreamsAboveTheLimitAreRefused) {
  ServerOptions options;
  options.concurrent_streams_max = 10;
  StartServer(options);
  {
    // Sent before the client could know the limit.
    const auto peer = NewPeer();
    std::string calls = Preface();
    for (std::uint32_t stream = 1; stream < 23; stream += 2) calls += Request(stream, kPark, "");
    peer->Send(calls);
    const Received& received = peer->ReadUntilStreamEnds(21);
    ASSERT_TRUE(received.streams.contains(21));
    EXPECT_TRUE(received.streams.at(21).reset);
    EXPECT_EQ(received.streams.at(21).reset_code, kRefusedStream);
    EXPECT_FALSE(received.streams.contains(1));
  }
  {
    // Sent by a client that has acknowledged the limit.
    const auto peer = NewPeer();
    peer->Send(Preface());
    peer->ReadUntil([](const Received& r) { return r.settings > 0; });
    peer->Send(Frame(frame::kSettings, frame::kAck, 0, ""));
    for (std::uint32_t stream = 1; stream < 23; stream += 2) peer->Send(Request(stream, kPark, ""));
    const Received& received = peer->ReadUntilClosed();
    EXPECT_TRUE(received.go_away);
    EXPECT_EQ(received.go_away_code, kProtocolError);
  }
}

TEST_F(HostileClientTest, WindowOverflowIsAnError) {
  StartServer({});
  const auto peer = NewPeer();
  peer->Send(Preface() + Frame(frame::kWindowUpdate, 0, 0, Number32(0x7fffffff)));
  const Received& received = peer->ReadUntilClosed();
  EXPECT_TRUE(received.go_away);
  EXPECT_EQ(received.go_away_code, kFlowControlError);
}

TEST_F(HostileClientTest, SilenceAndHalfHeadersAreClosedAfterATime) {
  ServerOptions options;
  options.handshake_timeout = std::chrono::milliseconds(30);
  StartServer(options);
  const auto silent = NewPeer();
  const auto half_preface = NewPeer();
  half_preface->Send(Preface().substr(0, 20));
  const auto half_headers = NewPeer();
  half_headers->Send(Preface() + Frame(frame::kHeaders, 0, 1, HeaderBlock(RequestFields(kEcho))));
  EXPECT_TRUE(silent->ReadUntilClosed().closed);
  EXPECT_TRUE(half_preface->ReadUntilClosed().closed);
  EXPECT_TRUE(half_headers->ReadUntilClosed().closed);
}

TEST_F(HostileClientTest, IdleConnectionsAreToldToGo) {
  ServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(20);
  StartServer(options);
  const auto peer = NewPeer();
  peer->Send(Preface());
  peer->ReadUntil([](const Received& r) { return r.go_away; });
  // The client confirms, by answering the ping that came along.
  peer->Send(Frame(frame::kPing, frame::kAck, 0, "draining"));
  EXPECT_TRUE(peer->ReadUntilClosed().closed);
  EXPECT_EQ(peer->received().go_away_code, kNoError);
}

TEST_F(HostileClientTest, RepliesThatNobodyTakesAreBounded) {
  ServerOptions options;
  options.buffered_bytes_max = 8u << 20;
  StartServer(options);
  const auto peer = NewPeer();
  // A window of nothing for every stream.
  peer->Send(Preface() + Frame(frame::kSettings, 0, 0, std::string("\0\4\0\0\0\0", 6)));
  for (std::uint32_t stream = 1; stream < 41; stream += 2) peer->Send(Request(stream, kBig, ""));
  const Received& received = peer->ReadUntilStreamEnds(39);
  int refused = 0;
  for (const auto& [id, stream] : received.streams) {
    if (stream.Field("grpc-status") == "8") ++refused;
  }
  EXPECT_EQ(refused, 12);  // Eight of a MiB fit.
}

TEST_F(HostileClientTest, RequestsThatNeverEndAreBounded) {
  ServerOptions options;
  options.buffered_bytes_max = 1u << 20;
  StartServer(options);
  const auto peer = NewPeer();
  peer->Send(Preface());
  const std::string part(16'000, 'x');
  const std::string start = std::string("\0\0\x0f\xff\xff", 5) + part;
  int refused = 0;
  for (std::uint32_t stream = 1; stream < 201; stream += 2) {
    peer->Send(
        Frame(frame::kHeaders, frame::kEndHeaders, stream, HeaderBlock(RequestFields(kEcho))) +
        Frame(frame::kData, 0, stream, start));
  }
  peer->Send(Request(201, kEcho, "small enough"));
  const Received& received = peer->ReadUntilStreamEnds(201);
  for (const auto& [id, stream] : received.streams) {
    if (stream.Field("grpc-status") == "8") ++refused;
  }
  EXPECT_GE(refused, 100 - (1 << 20) / 16'000);
  EXPECT_EQ(received.streams.at(201).Field("grpc-status"), "0");
}

TEST_F(HostileClientTest, AStreamThatIsNotReadStopsItsClientAlone) {
  StartServer({});
  const auto peer = NewPeer();
  peer->Send(Preface() + Frame(frame::kHeaders, frame::kEndHeaders, 1,
                               HeaderBlock(RequestFields("/test.Echo/Stuck"))));
  // Twice the stream's window, without looking at what the server allows.
  const std::string data = Frame(frame::kData, 0, 1, GrpcMessage(std::string(16'000, 'x')));
  for (int i = 0; i < 130; ++i) {
    if (!peer->Send(data)) break;
  }
  const Received& received = peer->ReadUntilStreamEnds(1);
  EXPECT_TRUE(received.closed || (received.streams.at(1).reset &&
                                  received.streams.at(1).reset_code == kFlowControlError));
}

TEST_F(HostileClientTest, AStreamThatEndsWhileItsWindowIsShutSendsTheRestFirst) {
  StartServer({});
  const auto peer = NewPeer();
  peer->Send(Preface() + Request(1, "/test.Echo/Large", ""));
  peer->ReadUntil([](const Received& r) {
    return r.streams.count(1) != 0 && r.streams.at(1).data.size() == 65'535;
  });
  large_finished_.get_future().wait();
  for (const std::uint32_t window : {0u, 1u}) {
    peer->Send(Frame(frame::kWindowUpdate, 0, window, Number32(1 << 20)));
  }
  const Received::Stream& answer = peer->ReadUntilStreamEnds(1).streams.at(1);
  EXPECT_TRUE(answer.data == GrpcMessage(std::string(100'000, 'b')));
  EXPECT_EQ(answer.Field("grpc-status"), "0");
}

TEST_F(HostileClientTest, WhatIsNoGrpcIsAnsweredInPlainText) {
  StartServer({});
  Fields fields = RequestFields(kEcho);
  fields[0].second = "GET";
  const auto peer = NewPeer();
  // Without the request's end: it is not reset before it sends more than it should.
  peer->Send(Preface() + Frame(frame::kHeaders, frame::kEndHeaders, 1, HeaderBlock(fields)));
  const Received& received = peer->ReadUntilStreamEnds(1);
  EXPECT_EQ(received.streams.at(1).Field("content-type"), "text/plain");
  EXPECT_EQ(received.streams.at(1).data, "gRPC calls are POST requests\n");
  EXPECT_FALSE(received.streams.at(1).reset);
  peer->Send(Frame(frame::kData, 0, 1, std::string(16'000, 'x')) +
             Frame(frame::kData, 0, 1, std::string(1'000, 'x')));
  peer->ReadUntil([](const Received& r) { return r.streams.at(1).reset; });
  EXPECT_EQ(received.streams.at(1).reset_code, kNoError);
}

TEST_F(HostileClientTest, FramesOnAStreamThatTheClientEndedAreAConnectionError) {
  StartServer({});
  const std::string headers = Frame(frame::kHeaders, frame::kEndHeaders | frame::kEndStream, 1,
                                    HeaderBlock(RequestFields(kEcho)));
  const std::string data = Frame(frame::kData, frame::kEndStream, 1, "x");
  const std::string reset = Frame(frame::kReset, 0, 1, Number32(8));
  const std::string request = Request(1, kEcho, "x");
  for (const std::string& late : {headers, data}) {
    const auto ended = NewPeer();
    ended->Send(Preface() + request);
    ended->ReadUntilStreamEnds(1);
    ended->Send(late);
    EXPECT_EQ(ended->ReadUntilClosed().go_away_code, kStreamClosed);

    const auto gave_up = NewPeer();
    gave_up->Send(Preface() + Request(1, kPark, "x") + reset + late);
    EXPECT_EQ(gave_up->ReadUntilClosed().go_away_code, kStreamClosed);
  }
  // Not what was under way when the server cut the stream short.
  const auto innocent = NewPeer();
  innocent->Send(Preface() + Frame(frame::kHeaders, frame::kEndHeaders, 1,
                                   HeaderBlock(RequestFields("/no.Such/Method"))));
  innocent->ReadUntil(
      [](const Received& r) { return r.streams.count(1) != 0 && r.streams.at(1).reset; });
  innocent->Send(data + Request(3, kEcho, "x"));
  EXPECT_EQ(innocent->ReadUntilStreamEnds(3).streams.at(3).Field("grpc-status"), "0");
}

TEST_F(HostileClientTest, ConnectionsAboveTheLimitAreClosedAtOnce) {
  ServerOptions options;
  options.connections_max = 3;
  StartServer(options);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(NewPeer());
    peers.back()->Send(Preface() + Request(1, kEcho, ""));
    peers.back()->ReadUntilStreamEnds(1);
  }
  const auto fourth = NewPeer();
  EXPECT_TRUE(fourth->ReadUntilClosed().closed);
  peers.clear();
  // Room again as soon as the server has seen them go.
  for (;;) {
    const auto peer = NewPeer();
    peer->Send(Preface() + Request(1, kEcho, ""));
    if (peer->ReadUntilStreamEnds(1).streams.contains(1)) break;
  }
}

TEST_F(HostileClientTest, ThousandsOfConnectionsComeAndGo) {
  StartServer({});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (int i = 0; i < 300; ++i) {
      peers.push_back(NewPeer());
      peers.back()->Send(Preface() + Request(1, kPark, "x"));
    }
    for (const auto& peer : peers) peer->Close();
  }
}

}  // namespace
}  // namespace millrace::rpc
