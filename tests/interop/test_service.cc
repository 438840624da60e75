#include "tests/interop/test_service.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "grpc/testing/test.pb.h"
#include "tests/interop/response_stream.h"

namespace millrace::interop {
namespace {

using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;

void AnswerUnary(std::unique_ptr<rpc::ServerCall> call) {
  SimpleRequest request;
  if (!request.ParseFromArray(call->request().data(), static_cast<int>(call->request().size()))) {
    call->Finish({rpc::Code::kInternal, "not a SimpleRequest", {}}, {});
    return;
  }
  EchoMetadata(call->metadata(), call.get(), nullptr);
  if (request.has_expect_compressed() &&
      request.expect_compressed().value() != call->request_compressed()) {
    call->Finish({rpc::Code::kInvalidArgument, "compression is not as expected", {}}, {});
    return;
  }
  if (request.response_status().code() != 0) {
    call->Finish({AskedCode(request.response_status()), request.response_status().message(), {}},
                 {});
    return;
  }
  if (request.response_size() < 0 || request.response_size() > kPayloadBytesMax) {
    call->Finish({rpc::Code::kInvalidArgument, "a response of that size cannot be", {}}, {});
    return;
  }
  SimpleResponse response;
  if (request.response_size() > 0) {
    response.mutable_payload()->mutable_body()->assign(
        static_cast<std::size_t>(request.response_size()), '\0');
  }
  if (request.fill_server_id()) response.set_server_id(std::to_string(getpid()));
  if (request.has_orca_per_query_report()) {
    call->AddTrailer(kOrcaTrailer, OrcaReportBytes(request.orca_per_query_report(), true));
  }
  if (request.response_compressed().value()) call->CompressResponse();
  call->FinishOk(response.SerializeAsString());
}

// Adds up the payloads and answers with the sum.
void ReadSum(std::unique_ptr<rpc::ServerStream> stream, std::int64_t sum) {
  rpc::ServerStream& reading = *stream;
  reading.Read([stream = std::move(stream), sum](std::optional<std::string> message) mutable {
    if (!message) {
      StreamingInputCallResponse response;
      response.set_aggregated_payload_size(static_cast<std::int32_t>(sum));
      rpc::ServerStream& writing = *stream;
      writing.Write(response.SerializeAsString(),
                    [stream = std::move(stream)](bool) { stream->Finish({}); });
      return;
    }
    StreamingInputCallRequest request;
    if (!request.ParseFromString(*message)) {
      stream->Finish({rpc::Code::kInternal, "not a StreamingInputCallRequest", {}});
      return;
    }
    if (request.has_expect_compressed() &&
        request.expect_compressed().value() != stream->read_compressed()) {
      stream->Finish({rpc::Code::kInvalidArgument, "compression is not as expected", {}});
      return;
    }
    sum += static_cast<std::int64_t>(request.payload().body().size());
    ReadSum(std::move(stream), sum);
  });
}

}  // namespace

void TestService::AddTo(rpc::ServiceTable* table) {
  const std::string prefix = "/grpc.testing.TestService/";
  table->unary[prefix + "EmptyCall"] = [](std::unique_ptr<rpc::ServerCall> call) {
    EchoMetadata(call->metadata(), call.get(), nullptr);
    call->FinishOk({});
  };
  table->unary[prefix + "UnaryCall"] = AnswerUnary;
  table->unary[prefix + "CacheableUnaryCall"] = AnswerUnary;
  table->streaming[prefix + "StreamingInputCall"] = [](std::unique_ptr<rpc::ServerStream> stream) {
    EchoMetadata(stream->metadata(), nullptr, stream.get());
    ReadSum(std::move(stream), 0);
  };
  const auto add = [&](const char* method, ResponseStream::Kind kind) {
    table->streaming[prefix + method] = [this, kind](std::unique_ptr<rpc::ServerStream> stream) {
      std::make_shared<ResponseStream>(std::move(stream), kind, loop_, reports_)->ReadNext();
    };
  };
  add("StreamingOutputCall", ResponseStream::Kind::kOneRequest);
  add("FullDuplexCall", ResponseStream::Kind::kFullDuplex);
  add("HalfDuplexCall", ResponseStream::Kind::kHalfDuplex);
  table->services.emplace_back("grpc.testing.TestService");
}

}  // namespace millrace::interop
