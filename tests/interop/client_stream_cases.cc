#include <array>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grpc/testing/test.pb.h"
#include "tests/interop/blocking_stream.h"
#include "tests/interop/client_cases.h"

namespace millrace::interop {
namespace {

using grpc::testing::ResponseParameters;
using grpc::testing::SimpleRequest;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;
using rpc::CallOptions;
using rpc::CallResult;
using rpc::Code;

constexpr std::array<int, 4> kRequestSizes = {27'182, 8, 1'828, 45'904};
constexpr std::array<int, 4> kResponseSizes = {31'415, 9, 2'653, 58'979};

std::string InputRequest(int bytes, std::optional<bool> compressed = std::nullopt) {
  StreamingInputCallRequest request;
  request.mutable_payload()->mutable_body()->assign(static_cast<std::size_t>(bytes), '\0');
  if (compressed) request.mutable_expect_compressed()->set_value(*compressed);
  return request.SerializeAsString();
}

StreamingOutputCallRequest OutputRequest(int response_bytes, int payload_bytes = 0) {
  StreamingOutputCallRequest request;
  request.add_response_parameters()->set_size(response_bytes);
  if (payload_bytes > 0) {
    request.mutable_payload()->mutable_body()->assign(static_cast<std::size_t>(payload_bytes),
                                                      '\0');
  }
  return request;
}

void RequireResponse(BlockingStream& stream, int bytes) {
  const std::optional<std::string> message = stream.Read();
  if (!message) {
    RequireStatus(stream.Finish(), Code::kOk);
    Require(false, "the stream ended too early");
  }
  StreamingOutputCallResponse response;
  Require(response.ParseFromString(*message), "not a StreamingOutputCallResponse");
  Require(response.payload().body() == std::string(static_cast<std::size_t>(bytes), '\0'),
          "the response has " + std::to_string(response.payload().body().size()) + " bytes, not " +
              std::to_string(bytes));
}

void RequireSum(BlockingStream& stream, int sum) {
  stream.WritesDone();
  const std::optional<std::string> message = stream.Read();
  const CallResult result = stream.Finish();
  RequireStatus(result, Code::kOk);
  StreamingInputCallResponse response;
  Require(message && response.ParseFromString(*message), "not a StreamingInputCallResponse");
  Require(response.aggregated_payload_size() == sum, "the sum is wrong");
}

void ClientStreaming(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("StreamingInputCall"), Patient(context));
  for (const int size : kRequestSizes) Require(stream.Write(InputRequest(size)), "cut short");
  RequireSum(stream, 74'922);
}

void ClientCompressedStreamingNoProbe(ClientContext& context) {
  for (const bool gzip : {true, false}) {
    CallOptions options = Patient(context);
    options.gzip = gzip;
    BlockingStream stream(context.channel, TestMethod("StreamingInputCall"), options);
    Require(stream.Write(InputRequest(27'182, gzip)), "cut short");
    Require(stream.Write(InputRequest(45'904, gzip)), "cut short");
    RequireSum(stream, 73'086);
  }
}

void ClientCompressedStreaming(ClientContext& context) {
  {
    // Does the server look at compression at all?
    BlockingStream probe(context.channel, TestMethod("StreamingInputCall"), Patient(context));
    probe.Write(InputRequest(27'182, true));
    probe.WritesDone();
    RequireStatus(probe.Finish(), Code::kInvalidArgument);
  }
  ClientCompressedStreamingNoProbe(context);
}

void ServerStreaming(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("StreamingOutputCall"), Patient(context));
  StreamingOutputCallRequest request;
  for (const int size : kResponseSizes) request.add_response_parameters()->set_size(size);
  Require(stream.Write(request.SerializeAsString()), "cut short");
  stream.WritesDone();
  for (const int size : kResponseSizes) RequireResponse(stream, size);
  RequireStatus(stream.Finish(), Code::kOk);
}

void ServerCompressedStreaming(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("StreamingOutputCall"), Patient(context));
  StreamingOutputCallRequest request;
  for (const auto& [size, compressed] : {std::pair{31'415, true}, std::pair{92'653, false}}) {
    ResponseParameters* parameters = request.add_response_parameters();
    parameters->set_size(size);
    parameters->mutable_compressed()->set_value(compressed);
  }
  Require(stream.Write(request.SerializeAsString()), "cut short");
  stream.WritesDone();
  RequireResponse(stream, 31'415);
  RequireResponse(stream, 92'653);
  RequireStatus(stream.Finish(), Code::kOk);
}

void PingPong(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), Patient(context));
  for (std::size_t i = 0; i < kRequestSizes.size(); ++i) {
    const StreamingOutputCallRequest request = OutputRequest(kResponseSizes[i], kRequestSizes[i]);
    Require(stream.Write(request.SerializeAsString()), "cut short");
    RequireResponse(stream, kResponseSizes[i]);
  }
  stream.WritesDone();
  RequireStatus(stream.Finish(), Code::kOk);
}

void EmptyStream(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), Patient(context));
  stream.WritesDone();
  Require(!stream.Read(), "there was a message");
  RequireStatus(stream.Finish(), Code::kOk);
}

void CancelAfterBegin(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("StreamingInputCall"), Patient(context));
  stream.Cancel();
  RequireStatus(stream.Finish(), Code::kCancelled);
}

void CancelAfterFirstResponse(ClientContext& context) {
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), Patient(context));
  Require(stream.Write(OutputRequest(31'415, 27'182).SerializeAsString()), "cut short");
  RequireResponse(stream, 31'415);
  stream.Cancel();
  RequireStatus(stream.Finish(), Code::kCancelled);
}

void TimeoutOnSleepingServer(ClientContext& context) {
  CallOptions options;
  options.deadline = context.loop.clock().Now() + std::chrono::milliseconds(1);
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), options);
  stream.Write(OutputRequest(1, 27'182).SerializeAsString());
  RequireStatus(stream.Finish(), Code::kDeadlineExceeded);
}

std::string Find(const rpc::Metadata& metadata, std::string_view name) {
  for (const auto& [key, value] : metadata) {
    if (key == name) return value;
  }
  return {};
}

void CustomMetadata(ClientContext& context) {
  const std::string initial = "x-grpc-test-echo-initial";
  const std::string trailing = "x-grpc-test-echo-trailing-bin";
  CallOptions options = Patient(context);
  options.metadata = {{initial, "test_initial_metadata_value"}, {trailing, "\xab\xab\xab"}};
  const auto require_echo = [&](const CallResult& result) {
    RequireStatus(result, Code::kOk);
    Require(Find(result.headers, initial) == "test_initial_metadata_value", "headers are wrong");
    Require(Find(result.trailers, trailing) == "\xab\xab\xab", "trailers are wrong");
  };
  SimpleRequest request;
  request.set_response_size(314'159);
  request.mutable_payload()->mutable_body()->assign(271'828, '\0');
  require_echo(
      CallAndWait(context.channel, TestMethod("UnaryCall"), request.SerializeAsString(), options));
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), options);
  Require(stream.Write(OutputRequest(314'159, 271'828).SerializeAsString()), "cut short");
  RequireResponse(stream, 314'159);
  stream.WritesDone();
  require_echo(stream.Finish());
}

void StatusCodeAndMessage(ClientContext& context) {
  SimpleRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message("test status message");
  RequireStatus(CallAndWait(context.channel, TestMethod("UnaryCall"), request.SerializeAsString(),
                            Patient(context)),
                Code::kUnknown, "test status message");
  StreamingOutputCallRequest output;
  *output.mutable_response_status() = request.response_status();
  BlockingStream stream(context.channel, TestMethod("FullDuplexCall"), Patient(context));
  stream.Write(output.SerializeAsString());
  stream.WritesDone();
  RequireStatus(stream.Finish(), Code::kUnknown, "test status message");
}

}  // namespace

void AddStreamCases(ClientCases* cases) {
  const ClientCases more = {
      {"client_streaming", ClientStreaming},
      {"client_compressed_streaming", ClientCompressedStreaming},
      {"client_compressed_streaming_noprobe", ClientCompressedStreamingNoProbe},
      {"server_streaming", ServerStreaming},
      {"server_compressed_streaming", ServerCompressedStreaming},
      {"ping_pong", PingPong},
      {"empty_stream", EmptyStream},
      {"cancel_after_begin", CancelAfterBegin},
      {"cancel_after_first_response", CancelAfterFirstResponse},
      {"timeout_on_sleeping_server", TimeoutOnSleepingServer},
      {"custom_metadata", CustomMetadata},
      {"status_code_and_message", StatusCodeAndMessage},
  };
  cases->insert(more.begin(), more.end());
}

}  // namespace millrace::interop
