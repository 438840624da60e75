#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/channel.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

// A client's stream with calls that block.
class BlockingStream {
 public:
  BlockingStream(Channel& channel, std::string_view method, CallOptions options = {}) {
    auto result = result_;
    stream_ = channel.Stream(method, std::move(options),
                             [result](CallResult r) { result->set_value(std::move(r)); });
  }

  std::future<bool> StartWrite(std::string message) {
    auto done = std::make_shared<std::promise<bool>>();
    stream_->Write(std::move(message), [done](bool more) { done->set_value(more); });
    return done->get_future();
  }
  bool Write(std::string message) { return StartWrite(std::move(message)).get(); }
  std::future<std::optional<std::string>> StartRead() {
    auto done = std::make_shared<std::promise<std::optional<std::string>>>();
    stream_->Read([done](std::optional<std::string> m) { done->set_value(std::move(m)); });
    return done->get_future();
  }
  std::optional<std::string> Read() { return StartRead().get(); }
  std::future<Metadata> StartReadHeaders() {
    auto done = std::make_shared<std::promise<Metadata>>();
    stream_->ReadHeaders([done](Metadata headers) { done->set_value(std::move(headers)); });
    return done->get_future();
  }
  Metadata ReadHeaders() { return StartReadHeaders().get(); }
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { stream_->Cancel(); }
  void Drop() { stream_ = nullptr; }
  CallResult Result() { return end_.get(); }

 private:
  std::shared_ptr<std::promise<CallResult>> result_ = std::make_shared<std::promise<CallResult>>();
  std::future<CallResult> end_ = result_->get_future();
  std::unique_ptr<ClientStream> stream_;
};

// The server's side of a stream, with calls that block. Tells when the client is gone.
class ServedStream {
 public:
  explicit ServedStream(std::unique_ptr<ServerStream> stream) : stream_(std::move(stream)) {
    stream_->OnCancel([cancelled = cancelled_] { cancelled->set_value(); });
  }
  ServerStream* operator->() { return stream_.get(); }
  std::optional<std::string> Read() {
    auto done = std::make_shared<std::promise<std::optional<std::string>>>();
    stream_->Read([done](std::optional<std::string> m) { done->set_value(std::move(m)); });
    return done->get_future().get();
  }
  std::future<bool> StartWrite(std::string message) {
    auto done = std::make_shared<std::promise<bool>>();
    stream_->Write(std::move(message), [done](bool more) { done->set_value(more); });
    return done->get_future();
  }
  bool Write(std::string message) { return StartWrite(std::move(message)).get(); }
  void Finish(RpcStatus status) {
    stream_->Finish(std::move(status));
    stream_ = nullptr;
  }
  void WaitCancelled() { cancelled_->get_future().wait(); }

 private:
  std::shared_ptr<std::promise<void>> cancelled_ = std::make_shared<std::promise<void>>();
  std::unique_ptr<ServerStream> stream_;
};

void Echo(std::unique_ptr<ServerStream> stream) {
  ServerStream& reading = *stream;
  reading.Read([stream = std::move(stream)](std::optional<std::string> message) mutable {
    if (!message) {
      stream->AddTrailer("end", "reached");
      stream->Finish({});
      return;
    }
    ServerStream& writing = *stream;
    writing.Write(*std::move(message), [stream = std::move(stream)](bool more) mutable {
      if (more) Echo(std::move(stream));
    });
  });
}

class ClientStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    ServiceTable services;
    services.streaming["/test.S/Echo"] = [](std::unique_ptr<ServerStream> stream) {
      for (const auto& [name, value] : stream->metadata()) stream->AddHeader(name, value);
      Echo(std::move(stream));
    };
    services.streaming["/test.S/Hand"] = [this](std::unique_ptr<ServerStream> stream) {
      MutexLock lock(mutex_);
      handed_.push_back(std::move(stream));
      changed_.NotifyAll();
    };
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    server_ =
        Server::Create({server_loop_.get()}, options, std::move(services), log_, NullMetrics());
    ASSERT_TRUE(server_->Start().ok());
    channel_ = NewChannel();
  }

  std::unique_ptr<Channel> NewChannel() {
    ChannelOptions options;
    options.target = server_->addresses().front();
    return Channel::Create(*client_loop_, options);
  }

  // The next stream of the method Hand.
  ServedStream Handed() {
    MutexLock lock(mutex_);
    while (handed_.empty()) changed_.Wait(mutex_);
    std::unique_ptr<ServerStream> stream = std::move(handed_.front());
    handed_.erase(handed_.begin());
    return ServedStream(std::move(stream));
  }

  SystemClock clock_;
  NullLog log_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<ServerStream>> handed_ MR_GUARDED_BY(mutex_);
  std::unique_ptr<exec::EventLoop> server_loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<exec::EventLoop> client_loop_ = exec::EventLoop::Create("client", clock_);
  std::unique_ptr<Server> server_;
  std::unique_ptr<Channel> channel_;
};

TEST_F(ClientStreamTest, MessagesGoBothWaysInTurns) {
  CallOptions options;
  options.metadata = {{"a", "1"}, {"b-bin", std::string("\0\xff", 2)}};
  BlockingStream stream(*channel_, "/test.S/Echo", options);
  for (const std::size_t size : {0u, 1u, 5u, 16'379u, 65'535u, 1u << 20, 3u << 20}) {
    const std::string message(size, 'x');
    ASSERT_TRUE(stream.Write(message));
    const std::optional<std::string> answer = stream.Read();
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(*answer == message) << size;
  }
  EXPECT_EQ(stream.ReadHeaders(), options.metadata);
  stream.WritesDone();
  EXPECT_EQ(stream.Read(), std::nullopt);
  const CallResult result = stream.Result();
  EXPECT_TRUE(result.status.ok()) << result.status.message;
  EXPECT_EQ(result.headers, options.metadata);
  EXPECT_EQ(result.trailers, (Metadata{{"end", "reached"}}));
  EXPECT_EQ(stream.Read(), std::nullopt);
  EXPECT_FALSE(stream.Write("too late"));
}

TEST_F(ClientStreamTest, HeadersAreSeenBeforeAnyMessageIsRead) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  auto headers = stream.StartReadHeaders();
  ServedStream served = Handed();
  served->AddHeader("early", "yes");
  ASSERT_TRUE(served.Write("m"));
  EXPECT_EQ(headers.get(), (Metadata{{"early", "yes"}}));
  served.Finish({});
  EXPECT_EQ(stream.Read(), "m");
  EXPECT_TRUE(stream.Result().status.ok());
}

TEST_F(ClientStreamTest, TheClientHalfClosesAndTheServerGoesOn) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ASSERT_TRUE(stream.Write("only"));
  stream.WritesDone();
  ServedStream served = Handed();
  EXPECT_EQ(served.Read(), "only");
  EXPECT_EQ(served.Read(), std::nullopt);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(served.Write(std::to_string(i)));
  served.Finish({Code::kOutOfRange, "that was all", "details"});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.Read(), std::to_string(i));
  const CallResult result = stream.Result();
  EXPECT_EQ(result.status.code, Code::kOutOfRange);
  EXPECT_EQ(result.status.message, "that was all");
  EXPECT_EQ(result.status.details, "details");
}

TEST_F(ClientStreamTest, TheStatusWaitsForTheMessagesBeforeIt) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  ASSERT_TRUE(served.Write("first"));
  ASSERT_TRUE(served.Write("second"));
  served.Finish({Code::kAborted, "", {}});
  EXPECT_EQ(stream.Read(), "first");
  // Over for the server, not for the one who reads.
  EXPECT_EQ(stream.ReadHeaders(), Metadata{});
  EXPECT_EQ(stream.Read(), "second");
  EXPECT_EQ(stream.Result().status.code, Code::kAborted);
  EXPECT_EQ(stream.Read(), std::nullopt);
}

TEST_F(ClientStreamTest, TheServerEndsWhileTheClientStillWrites) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  served->AddTrailer("why", "enough");
  served.Finish({Code::kFailedPrecondition, "enough", {}});
  while (stream.Write(std::string(1000, 'x'))) {
  }
  const CallResult result = stream.Result();
  EXPECT_EQ(result.status.code, Code::kFailedPrecondition);
  EXPECT_EQ(result.trailers, (Metadata{{"why", "enough"}}));
}

TEST_F(ClientStreamTest, AWriterWaitsForAServerThatDoesNotRead) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  constexpr std::size_t kBytes = 16u << 10;
  std::size_t written = 0;
  std::future<bool> last;
  // Far above what both sides may hold: the server's inbox and window, our outbox.
  for (; written < 1'000; ++written) {
    last = stream.StartWrite(std::string(kBytes, 'x'));
    // A round trip over the same connection: what can move has moved.
    BlockingStream other(*channel_, "/test.S/Echo");
    other.WritesDone();
    ASSERT_TRUE(other.Result().status.ok());
    if (last.wait_for(Duration::zero()) != std::future_status::ready) break;
  }
  EXPECT_LE(written * kBytes, 2u << 20);
  EXPECT_GE(written * kBytes, 256u << 10);
  // Reading lets it go on.
  std::size_t read = 0;
  while (read <= written) {
    ASSERT_TRUE(served.Read().has_value());
    ++read;
  }
  EXPECT_TRUE(last.get());
  stream.Cancel();
  EXPECT_EQ(stream.Result().status.code, Code::kCancelled);
  served.WaitCancelled();
}

TEST_F(ClientStreamTest, AServerWaitsForAClientThatDoesNotRead) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  constexpr std::size_t kBytes = 16u << 10;
  std::size_t written = 0;
  std::future<bool> last;
  for (; written < 1'000; ++written) {
    last = served.StartWrite(std::string(kBytes, 'x'));
    BlockingStream other(*channel_, "/test.S/Echo");
    other.WritesDone();
    ASSERT_TRUE(other.Result().status.ok());
    if (last.wait_for(Duration::zero()) != std::future_status::ready) break;
  }
  EXPECT_LE(written * kBytes, 2u << 20);
  EXPECT_GE(written * kBytes, 256u << 10);
  for (std::size_t read = 0; read <= written; ++read) ASSERT_TRUE(stream.Read().has_value());
  EXPECT_TRUE(last.get());
  served.Finish({});
  EXPECT_TRUE(stream.Result().status.ok());
}

TEST_F(ClientStreamTest, DroppingAStreamWithUnreadMessagesEndsIt) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  ASSERT_TRUE(served.Write("unread"));
  stream.ReadHeaders();
  stream.Drop();
  EXPECT_EQ(stream.Result().status.code, Code::kCancelled);
  served.WaitCancelled();
  served.Finish({});
}

// Every step that a call can be in when it is cancelled, and what waits then.
TEST_F(ClientStreamTest, CancellingWorksAtEveryStep) {
  for (const bool by_deadline : {false, true}) {
    for (int step = 0; step < 6; ++step) {
      SCOPED_TRACE(std::to_string(step) + (by_deadline ? " by deadline" : ""));
      CallOptions options;
      if (by_deadline) options.deadline = clock_.Now() + std::chrono::milliseconds(100);
      BlockingStream stream(*channel_, "/test.S/Hand", options);
      std::optional<ServedStream> served;
      std::vector<std::future<bool>> writes;
      if (step >= 1 && !by_deadline) served.emplace(Handed());
      if (step == 2) stream.StartWrite("m");
      if (step == 3) stream.WritesDone();
      if (step == 4 && served) served->StartWrite("unread");
      if (step == 5) {
        // The server does not read the first, so that the second waits.
        stream.Write(std::string(2u << 20, 'x'));
        writes.push_back(stream.StartWrite(std::string(3u << 20, 'x')));
      }
      auto read = step == 4 ? std::future<std::optional<std::string>>() : stream.StartRead();
      auto headers = stream.StartReadHeaders();
      if (!by_deadline) stream.Cancel();
      EXPECT_EQ(stream.Result().status.code,
                by_deadline ? Code::kDeadlineExceeded : Code::kCancelled);
      if (read.valid()) {
        EXPECT_EQ(read.get(), std::nullopt);
      }
      headers.get();
      for (auto& write : writes) EXPECT_FALSE(write.get());
      if (served) {
        served->WaitCancelled();
        served->Finish({});
      }
    }
  }
  MutexLock lock(mutex_);
  handed_.clear();
}

TEST_F(ClientStreamTest, AVanishedServerEndsTheCallBehindItsMessages) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  ASSERT_TRUE(served.Write("before"));
  stream.ReadHeaders();
  std::thread stopping([this] { server_->Shutdown(Duration::zero()); });
  served.WaitCancelled();
  served.Finish({});
  stopping.join();
  EXPECT_EQ(stream.Read(), "before");
  EXPECT_EQ(stream.Result().status.code, Code::kUnavailable);
}

TEST_F(ClientStreamTest, ADrainingServerLetsStreamsEnd) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  ASSERT_TRUE(served.Write("before"));
  EXPECT_EQ(stream.Read(), "before");
  std::thread stopping([this] { server_->Shutdown(3600 * kSecond); });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(served.Write("after"));
    EXPECT_EQ(stream.Read(), "after");
    ASSERT_TRUE(stream.Write("up"));
    EXPECT_EQ(served.Read(), "up");
  }
  served.Finish({});
  EXPECT_TRUE(stream.Result().status.ok());
  stopping.join();
}

TEST_F(ClientStreamTest, TheChannelsEndEndsStreams) {
  BlockingStream stream(*channel_, "/test.S/Hand");
  ServedStream served = Handed();
  auto read = stream.StartRead();
  channel_ = nullptr;
  EXPECT_EQ(read.get(), std::nullopt);
  EXPECT_EQ(stream.Result().status.code, Code::kCancelled);
  // The handle may outlive it.
  EXPECT_FALSE(stream.Write("m"));
  served.WaitCancelled();
}

TEST_F(ClientStreamTest, CompressesMessages) {
  CallOptions options;
  options.gzip = true;
  BlockingStream stream(*channel_, "/test.S/Echo", options);
  const std::string message(1u << 20, 'x');
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream.Write(message));
    EXPECT_TRUE(stream.Read() == message);
  }
  ASSERT_TRUE(stream.Write(""));
  EXPECT_EQ(stream.Read(), "");
  stream.WritesDone();
  EXPECT_TRUE(stream.Result().status.ok());
}

TEST_F(ClientStreamTest, ManyStreamsAtOnce) {
  constexpr int kStreams = 200;
  std::vector<std::unique_ptr<BlockingStream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<BlockingStream>(*channel_, "/test.S/Echo"));
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kStreams; ++i) streams[i]->StartWrite(std::to_string(i));
    for (int i = 0; i < kStreams; ++i) EXPECT_EQ(streams[i]->Read(), std::to_string(i));
  }
  for (int i = 0; i < kStreams; ++i) streams[i]->WritesDone();
  for (int i = 0; i < kStreams; ++i) EXPECT_TRUE(streams[i]->Result().status.ok());
}

// Against a server written out frame by frame.
class RawServerStreamTest : public testing::Test {
 protected:
  void Open(CallOptions options = {}) {
    ChannelOptions channel_options;
    channel_options.target = listener_.address();
    channel_options.receive_message_bytes_max = 1000;
    channel_ = Channel::Create(*loop_, channel_options);
    stream_.emplace(*channel_, "/a.B/C", std::move(options));
    peer_ = Accept();
  }
  std::unique_ptr<RawPeer> Accept() {
    auto peer = std::make_unique<RawPeer>(listener_.Accept());
    peer->Send(Frame(frame::kSettings, 0, 0, ""));
    return peer;
  }
  // Waits until as many bytes of the stream's messages have come.
  static void AwaitData(RawPeer& peer, std::uint32_t stream, std::size_t bytes) {
    peer.ReadUntil([stream, bytes](const Received& r) {
      const auto it = r.streams.find(stream);
      return it != r.streams.end() && it->second.data.size() >= bytes;
    });
  }
  static std::string Headers(std::uint32_t stream, const Fields& fields, bool end = false) {
    return Frame(frame::kHeaders, frame::kEndHeaders | (end ? frame::kEndStream : 0), stream,
                 HeaderBlock(fields));
  }
  static Fields Ok() { return {{":status", "200"}, {"content-type", "application/grpc"}}; }

  RawListener listener_;
  SystemClock clock_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("client", clock_);
  std::unique_ptr<Channel> channel_;
  std::optional<BlockingStream> stream_;
  std::unique_ptr<RawPeer> peer_;
};

TEST_F(RawServerStreamTest, AResetEndsTheCallBehindItsMessages) {
  Open();
  ASSERT_TRUE(stream_->Write("m"));
  AwaitData(*peer_, 1, 6);
  peer_->Send(Headers(1, Ok()) + Frame(frame::kData, 0, 1, GrpcMessage("got")) +
              Frame(frame::kReset, 0, 1, Number32(2)));
  EXPECT_EQ(stream_->Read(), "got");
  EXPECT_EQ(stream_->Result().status.code, Code::kInternal);
  EXPECT_FALSE(stream_->Write("m"));
}

TEST_F(RawServerStreamTest, ARefusedStreamIsSentAgainWithItsMessages) {
  Open();
  ASSERT_TRUE(stream_->Write("one"));
  ASSERT_TRUE(stream_->Write("two"));
  AwaitData(*peer_, 1, 16);
  peer_->Send(Frame(frame::kReset, 0, 1, Number32(7)));
  AwaitData(*peer_, 3, 16);
  ASSERT_TRUE(stream_->Write("three"));
  stream_->WritesDone();
  peer_->ReadUntilStreamEnds(3);
  EXPECT_EQ(peer_->received().streams.at(3).data,
            GrpcMessage("one") + GrpcMessage("two") + GrpcMessage("three"));
  peer_->Send(Headers(
      3, {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}}, true));
  EXPECT_TRUE(stream_->Result().status.ok());
}

TEST_F(RawServerStreamTest, AStreamThatHasSentMoreThanItKeepsIsNotSentAgain) {
  Open();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream_->Write(std::string(32'760, 'x')));
  auto waits = stream_->StartWrite(std::string(80'000, 'x'));
  AwaitData(*peer_, 1, 65'535);
  EXPECT_NE(waits.wait_for(Duration::zero()), std::future_status::ready);
  peer_->Send(Frame(frame::kWindowUpdate, 0, 0, Number32(100'000)) +
              Frame(frame::kWindowUpdate, 0, 1, Number32(100'000)));
  EXPECT_TRUE(waits.get());
  AwaitData(*peer_, 1, 2 * 32'765 + 80'005);
  peer_->Send(Frame(frame::kReset, 0, 1, Number32(7)));
  EXPECT_EQ(stream_->Result().status.code, Code::kUnavailable);
  EXPECT_EQ(peer_->received().streams.size(), 1u);
}

TEST_F(RawServerStreamTest, GoAwayMovesOnlyStreamsAboveItsLast) {
  Open();
  ASSERT_TRUE(stream_->Write("old"));
  AwaitData(*peer_, 1, 8);
  BlockingStream second(*channel_, "/a.B/C");
  ASSERT_TRUE(second.Write("new"));
  AwaitData(*peer_, 3, 8);
  peer_->Send(Frame(frame::kGoAway, 0, 0, Number32(1) + Number32(0)));
  const auto next = Accept();
  AwaitData(*next, 1, 8);
  EXPECT_EQ(next->received().streams.at(1).data, GrpcMessage("new"));
  // The old one goes on where it is.
  ASSERT_TRUE(stream_->Write("more"));
  AwaitData(*peer_, 1, 17);
  peer_->Send(Headers(1, Ok()) + Frame(frame::kData, 0, 1, GrpcMessage("a")) +
              Headers(1, {{"grpc-status", "0"}}, true));
  EXPECT_EQ(stream_->Read(), "a");
  EXPECT_TRUE(stream_->Result().status.ok());
  second.WritesDone();
  next->ReadUntilStreamEnds(1);
  next->Send(Headers(1, Ok()) + Frame(frame::kData, 0, 1, GrpcMessage("b")) +
             Headers(1, {{"grpc-status", "0"}}, true));
  EXPECT_EQ(second.Read(), "b");
  EXPECT_TRUE(second.Result().status.ok());
}

TEST_F(RawServerStreamTest, OnceTheServerHasBegunTheCallIsNotSentAgain) {
  Open();
  ASSERT_TRUE(stream_->Write("m"));
  AwaitData(*peer_, 1, 6);
  peer_->Send(Headers(1, Ok()));
  stream_->ReadHeaders();
  peer_->Send(Frame(frame::kReset, 0, 1, Number32(7)));
  EXPECT_EQ(stream_->Result().status.code, Code::kUnavailable);
  EXPECT_EQ(peer_->received().streams.size(), 1u);
}

TEST_F(RawServerStreamTest, ALostConnectionEndsTheCallBehindItsMessages) {
  Open();
  ASSERT_TRUE(stream_->Write("m"));
  AwaitData(*peer_, 1, 6);
  peer_->Send(Headers(1, Ok()) + Frame(frame::kData, 0, 1, GrpcMessage("got")));
  stream_->ReadHeaders();
  peer_->Close();
  EXPECT_EQ(stream_->Read(), "got");
  EXPECT_EQ(stream_->Result().status.code, Code::kUnavailable);
}

TEST_F(RawServerStreamTest, MessagesAboveTheLimitEndTheCall) {
  Open();
  AwaitData(*peer_, 1, 0);
  peer_->Send(Headers(1, Ok()) + Frame(frame::kData, 0, 1, GrpcMessage(std::string(1000, 'x'))) +
              Frame(frame::kData, 0, 1, GrpcMessage(std::string(1001, 'x'))));
  EXPECT_EQ(stream_->Read(), std::string(1000, 'x'));
  EXPECT_EQ(stream_->Result().status.code, Code::kResourceExhausted);
  peer_->ReadUntil([](const Received& r) { return r.streams.at(1).reset; });
}

TEST_F(RawServerStreamTest, PackedMessagesAreUnpackedUpToTheLimit) {
  Open();
  AwaitData(*peer_, 1, 0);
  Fields packed = Ok();
  packed.emplace_back("grpc-encoding", "gzip");
  peer_->Send(Headers(1, packed) + Frame(frame::kData, 0, 1, GrpcMessage(Gzip("packed"), 1)) +
              Frame(frame::kData, 0, 1, GrpcMessage("plain")) +
              Frame(frame::kData, 0, 1, GrpcMessage(Gzip(std::string(1001, 'x')), 1)));
  EXPECT_EQ(stream_->Read(), "packed");
  EXPECT_EQ(stream_->Read(), "plain");
  EXPECT_EQ(stream_->Result().status.code, Code::kResourceExhausted);
}

TEST_F(RawServerStreamTest, AnEarlyEndOfTheServerResetsWhatTheClientWouldStillSend) {
  Open();
  ASSERT_TRUE(stream_->Write("m"));
  AwaitData(*peer_, 1, 6);
  peer_->Send(Headers(1, Ok()) + Headers(1, {{"grpc-status", "9"}, {"late", "1"}}, true));
  const CallResult result = stream_->Result();
  EXPECT_EQ(result.status.code, Code::kFailedPrecondition);
  EXPECT_EQ(result.trailers, (Metadata{{"late", "1"}}));
  peer_->ReadUntil([](const Received& r) { return r.streams.at(1).reset; });
  EXPECT_EQ(peer_->received().streams.at(1).reset_code, 0u);
}

TEST_F(RawServerStreamTest, EndsWithoutAStatusAreErrors) {
  Open();
  AwaitData(*peer_, 1, 0);
  peer_->Send(Headers(1, Ok()) + Frame(frame::kData, frame::kEndStream, 1, GrpcMessage("a")));
  EXPECT_EQ(stream_->Read(), "a");
  EXPECT_EQ(stream_->Result().status.code, Code::kUnknown);
}

TEST_F(RawServerStreamTest, InterimHeadersAreSkipped) {
  Open();
  AwaitData(*peer_, 1, 0);
  peer_->Send(Headers(1, {{":status", "103"}, {"hint", "x"}}) + Headers(1, Ok()) +
              Headers(1, {{"grpc-status", "0"}, {"t", "1"}}, true));
  const CallResult result = stream_->Result();
  EXPECT_TRUE(result.status.ok()) << result.status.message;
  EXPECT_EQ(result.headers, Metadata{});
  EXPECT_EQ(result.trailers, (Metadata{{"t", "1"}}));
}

}  // namespace
}  // namespace millrace::rpc
