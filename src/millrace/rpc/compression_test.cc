#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/gzip.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

// Compressed replies as they look on the wire.
namespace millrace::rpc {
namespace {

void WritePlainAndPacked(std::unique_ptr<ServerStream> stream) {
  stream->CompressWrites(true);
  stream->CompressWrites(false);
  ServerStream& writing = *stream;
  writing.Write("plain", [stream = std::move(stream)](bool) mutable {
    stream->CompressWrites(true);
    ServerStream& again = *stream;
    again.Write("packed", [stream = std::move(stream)](bool) { stream->Finish({}); });
  });
}

void TurnOnTooLate(std::unique_ptr<ServerStream> stream) {
  ServerStream& writing = *stream;
  writing.Write("plain", [stream = std::move(stream)](bool) mutable {
    stream->CompressWrites(true);
    ServerStream& again = *stream;
    again.Write("plain", [stream = std::move(stream)](bool) { stream->Finish({}); });
  });
}

void TellCompressed(std::unique_ptr<ServerStream> stream, std::string answer) {
  ServerStream& reading = *stream;
  reading.Read([stream = std::move(stream),
                answer = std::move(answer)](std::optional<std::string> message) mutable {
    if (message) {
      answer += stream->read_compressed() ? "1" : "0";
      TellCompressed(std::move(stream), std::move(answer));
      return;
    }
    ServerStream& writing = *stream;
    writing.Write(std::move(answer), [stream = std::move(stream)](bool) { stream->Finish({}); });
  });
}

class CompressionTest : public testing::Test {
 protected:
  void SetUp() override {
    ServiceTable services;
    services.unary["/t.T/Packed"] = [](std::unique_ptr<ServerCall> call) {
      call->CompressResponse();
      call->FinishOk(std::string(10'000, 'x'));
    };
    services.unary["/t.T/Fails"] = [](std::unique_ptr<ServerCall> call) {
      call->CompressResponse();
      call->Finish({Code::kAborted, "no", {}}, "unused");
    };
    services.unary["/t.T/Tell"] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(call->request_compressed() ? "1" : "0");
    };
    services.streaming["/t.T/Stream"] = WritePlainAndPacked;
    services.streaming["/t.T/Late"] = TurnOnTooLate;
    services.streaming["/t.T/TellEach"] = [](std::unique_ptr<ServerStream> stream) {
      TellCompressed(std::move(stream), "");
    };
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    server_ =
        Server::Create({loop_.get()}, std::move(options), std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  Received::Stream Call(const std::string& path, const Fields& more = {},
                        std::string_view body = {}) {
    RawPeer peer(server_->addresses().front());
    peer.Send(Preface());
    peer.Send(
        Frame(frame::kHeaders, frame::kEndHeaders, 1, HeaderBlock(RequestFields(path, more))));
    peer.Send(Frame(frame::kData, frame::kEndStream, 1, body.empty() ? GrpcMessage("") : body));
    return peer.ReadUntilStreamEnds(1).streams.at(1);
  }

  SystemClock clock_;
  NullLog log_;
  std::unique_ptr<exec::EventLoop> loop_ = exec::EventLoop::Create("server", clock_);
  std::unique_ptr<Server> server_;
  const Fields takes_gzip_ = {{"grpc-accept-encoding", "identity, deflate, gzip"}};
};

TEST_F(CompressionTest, AResponseIsPackedForThoseWhoTakeIt) {
  const Received::Stream packed = Call("/t.T/Packed", takes_gzip_);
  EXPECT_EQ(packed.Field("grpc-encoding"), "gzip");
  EXPECT_EQ(packed.Field("grpc-status"), "0");
  ASSERT_GT(packed.data.size(), 5u);
  EXPECT_LT(packed.data.size(), 1'000u);
  EXPECT_EQ(packed.data[0], '\1');
  const Result<std::string> unpacked = Gunzip(packed.data.substr(5), 1 << 20);
  ASSERT_TRUE(unpacked.ok());
  EXPECT_EQ(unpacked.value(), std::string(10'000, 'x'));

  for (const Fields& others : {Fields{}, Fields{{"grpc-accept-encoding", "identity,gzipped"}}}) {
    const Received::Stream plain = Call("/t.T/Packed", others);
    EXPECT_EQ(plain.Field("grpc-encoding"), "(none)");
    EXPECT_EQ(plain.data, GrpcMessage(std::string(10'000, 'x')));
  }
}

TEST_F(CompressionTest, AFailureHasNothingToPack) {
  const Received::Stream answer = Call("/t.T/Fails", takes_gzip_);
  EXPECT_EQ(answer.Field("grpc-status"), "10");
  EXPECT_EQ(answer.data, "");
}

TEST_F(CompressionTest, EachMessageOfAStreamCanDiffer) {
  const Received::Stream answer = Call("/t.T/Stream", takes_gzip_);
  EXPECT_EQ(answer.Field("grpc-encoding"), "gzip");
  EXPECT_EQ(answer.data, GrpcMessage("plain") + GrpcMessage(Gzip("packed"), 1));
  const Received::Stream plain = Call("/t.T/Stream");
  EXPECT_EQ(plain.Field("grpc-encoding"), "(none)");
  EXPECT_EQ(plain.data, GrpcMessage("plain") + GrpcMessage("packed"));
}

TEST_F(CompressionTest, NothingIsPackedThatTheHeadersDidNotAnnounce) {
  const Received::Stream answer = Call("/t.T/Late", takes_gzip_);
  EXPECT_EQ(answer.Field("grpc-encoding"), "(none)");
  EXPECT_EQ(answer.data, GrpcMessage("plain") + GrpcMessage("plain"));
}

TEST_F(CompressionTest, TheHandlerIsToldWhatCameCompressed) {
  const Fields packs = {{"grpc-encoding", "gzip"}};
  EXPECT_EQ(Call("/t.T/Tell", packs, GrpcMessage(Gzip("m"), 1)).data, GrpcMessage("1"));
  EXPECT_EQ(Call("/t.T/Tell", packs, GrpcMessage("m")).data, GrpcMessage("0"));
  const std::string mixed = GrpcMessage(Gzip("m"), 1) + GrpcMessage("m") + GrpcMessage(Gzip(""), 1);
  EXPECT_EQ(Call("/t.T/TellEach", packs, mixed).data, GrpcMessage("101"));
}

}  // namespace
}  // namespace millrace::rpc
