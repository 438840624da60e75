#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/testing/test.pb.h"
#include "tests/interop/client_cases.h"

namespace millrace::interop {
namespace {

using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using rpc::CallOptions;
using rpc::CallResult;
using rpc::Code;

constexpr int kResponseBytes = 314'159;
constexpr int kRequestBytes = 271'828;

SimpleRequest LargeRequest() {
  SimpleRequest request;
  request.set_response_size(kResponseBytes);
  request.mutable_payload()->mutable_body()->assign(kRequestBytes, '\0');
  return request;
}

void RequireLargeResponse(const CallResult& result) {
  RequireStatus(result, Code::kOk);
  SimpleResponse response;
  Require(response.ParseFromString(result.response), "the response is not a SimpleResponse");
  Require(response.payload().body() == std::string(kResponseBytes, '\0'),
          "the response is not the one asked for");
}

CallResult UnaryCall(ClientContext& context, const SimpleRequest& request, CallOptions options) {
  return CallAndWait(context.channel, TestMethod("UnaryCall"), request.SerializeAsString(),
                     std::move(options));
}

void EmptyUnary(ClientContext& context) {
  const CallResult result =
      CallAndWait(context.channel, TestMethod("EmptyCall"), {}, Patient(context));
  RequireStatus(result, Code::kOk);
  Require(result.response.empty(), "the response is not empty");
}

void LargeUnary(ClientContext& context) {
  RequireLargeResponse(UnaryCall(context, LargeRequest(), Patient(context)));
}

void ClientCompressedUnaryNoProbe(ClientContext& context) {
  for (const bool gzip : {true, false}) {
    SimpleRequest request = LargeRequest();
    request.mutable_expect_compressed()->set_value(gzip);
    CallOptions options = Patient(context);
    options.gzip = gzip;
    RequireLargeResponse(UnaryCall(context, request, options));
  }
}

void ClientCompressedUnary(ClientContext& context) {
  // Does the server look at compression at all?
  SimpleRequest request = LargeRequest();
  request.mutable_expect_compressed()->set_value(true);
  RequireStatus(UnaryCall(context, request, Patient(context)), Code::kInvalidArgument);
  ClientCompressedUnaryNoProbe(context);
}

void ServerCompressedUnary(ClientContext& context) {
  for (const bool compressed : {true, false}) {
    SimpleRequest request = LargeRequest();
    request.mutable_response_compressed()->set_value(compressed);
    RequireLargeResponse(UnaryCall(context, request, Patient(context)));
  }
}

void UnimplementedMethod(ClientContext& context) {
  RequireStatus(CallAndWait(context.channel, TestMethod("UnimplementedCall"), {}, Patient(context)),
                Code::kUnimplemented);
}

void UnimplementedService(ClientContext& context) {
  RequireStatus(CallAndWait(context.channel, "/grpc.testing.UnimplementedService/UnimplementedCall",
                            {}, Patient(context)),
                Code::kUnimplemented);
}

void SpecialStatusMessage(ClientContext& context) {
  const std::string message =
      "\t\ntest with whitespace\r\nand Unicode BMP \xE2\x98\xBA and non-BMP \xF0\x9F\x98\x88\t\n";
  SimpleRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(message);
  RequireStatus(UnaryCall(context, request, Patient(context)), Code::kUnknown, message);
}

void ConcurrentLargeUnary(ClientContext& context) {
  constexpr std::size_t kCalls = 200;
  const std::string request = LargeRequest().SerializeAsString();
  std::vector<std::promise<CallResult>> results(kCalls);
  for (std::promise<CallResult>& result : results) {
    context.channel.Call(TestMethod("UnaryCall"), request, Patient(context),
                         [&result](CallResult ended) { result.set_value(std::move(ended)); });
  }
  for (std::promise<CallResult>& result : results) RequireLargeResponse(result.get_future().get());
}

void RpcSoak(ClientContext& context) {
  for (int i = 0; i < 100; ++i) LargeUnary(context);
}

void ChannelSoak(ClientContext& context) {
  for (int i = 0; i < 30; ++i) {
    const auto channel = rpc::Channel::Create(context.loop, context.options);
    ClientContext fresh{context.loop, context.options, *channel};
    LargeUnary(fresh);
  }
}

}  // namespace

void Require(bool so, std::string_view what) {
  if (so) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::fflush(stderr);
  std::_Exit(EXIT_FAILURE);
}

void RequireStatus(const CallResult& result, Code code, std::string_view message) {
  Require(result.status.code == code && (message.empty() || result.status.message == message),
          "the status is " + std::string(CodeName(result.status.code)) + " \"" +
              result.status.message + "\", not " + std::string(CodeName(code)) + " \"" +
              std::string(message) + "\"");
}

std::string TestMethod(std::string_view name) {
  return "/grpc.testing.TestService/" + std::string(name);
}

CallOptions Patient(const ClientContext& context) {
  CallOptions options;
  options.deadline = context.loop.clock().Now() + std::chrono::seconds(100);
  return options;
}

void AddUnaryCases(ClientCases* cases) {
  *cases = {
      {"empty_unary", EmptyUnary},
      {"large_unary", LargeUnary},
      {"client_compressed_unary", ClientCompressedUnary},
      {"client_compressed_unary_noprobe", ClientCompressedUnaryNoProbe},
      {"server_compressed_unary", ServerCompressedUnary},
      {"unimplemented_method", UnimplementedMethod},
      {"unimplemented_service", UnimplementedService},
      {"special_status_message", SpecialStatusMessage},
      {"concurrent_large_unary", ConcurrentLargeUnary},
      {"rpc_soak", RpcSoak},
      {"channel_soak", ChannelSoak},
  };
}

}  // namespace millrace::interop
