#include "millrace/cli/call_error.h"

#include <chrono>
#include <sstream>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

rpc::RpcStatus Detailed(rpc::Code code, const std::string& reason) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("millrace");
  details.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  details.add_details()->PackFrom(retry);
  google::rpc::BadRequest bad;
  auto* field = bad.add_field_violations();
  field->set_field("tasks[3].payload");
  field->set_description("too big");
  details.add_details()->PackFrom(bad);
  return {code, "no", details.SerializeAsString()};
}

TEST(CallErrorTest, ReadsTheDetails) {
  const CallError error = ReadCallError(Detailed(rpc::Code::kUnavailable, "DRAINING"));
  EXPECT_EQ(error.reason, "DRAINING");
  EXPECT_EQ(error.retry_delay, std::chrono::milliseconds(1500));
  ASSERT_EQ(error.fields.size(), 1u);
  EXPECT_EQ(error.fields[0].name, "tasks[3].payload");
}

TEST(CallErrorTest, DamagedDetailsAreLeftOut) {
  const CallError error =
      ReadCallError(rpc::RpcStatus{rpc::Code::kInternal, "broken", "\xFF\xFF\xFF"});
  EXPECT_EQ(error.message, "broken");
  EXPECT_EQ(error.reason, "");
}

TEST(CallErrorTest, ExitCodes) {
  const auto exit_code = [](rpc::Code code) {
    return ReadCallError(rpc::RpcStatus{code, "", ""}).exit_code();
  };
  EXPECT_EQ(exit_code(rpc::Code::kInvalidArgument), kExitUsage);
  EXPECT_EQ(exit_code(rpc::Code::kNotFound), kExitNotFound);
  EXPECT_EQ(exit_code(rpc::Code::kUnavailable), kExitUnavailable);
  EXPECT_EQ(exit_code(rpc::Code::kDeadlineExceeded), kExitUnavailable);
  EXPECT_EQ(exit_code(rpc::Code::kInternal), kExitFailed);
}

TEST(CallErrorTest, OnlyALostReplyOrAnUnknownWriteIsUncertain) {
  EXPECT_TRUE(ReadCallError(rpc::RpcStatus{rpc::Code::kUnavailable, "", ""}).outcome_unknown());
  EXPECT_TRUE(
      ReadCallError(Detailed(rpc::Code::kUnavailable, "OUTCOME_UNKNOWN")).outcome_unknown());
  EXPECT_FALSE(ReadCallError(Detailed(rpc::Code::kUnavailable, "DRAINING")).outcome_unknown());
  EXPECT_FALSE(
      ReadCallError(Detailed(rpc::Code::kUnavailable, "STORE_READ_ONLY")).outcome_unknown());
  EXPECT_FALSE(
      ReadCallError(rpc::RpcStatus{rpc::Code::kResourceExhausted, "", ""}).outcome_unknown());
  EXPECT_TRUE(
      ReadCallError(rpc::RpcStatus{rpc::Code::kDeadlineExceeded, "", ""}).outcome_unknown());
}

TEST(CallErrorTest, WhatWasNeverSentIsCertain) {
  rpc::CallResult result;
  result.status = {rpc::Code::kUnavailable, "", ""};
  EXPECT_TRUE(ReadCallError(result).outcome_unknown());
  result.never_sent = true;
  EXPECT_FALSE(ReadCallError(result).outcome_unknown());
  EXPECT_TRUE(ReadCallError(result).retryable());
}

TEST(CallErrorTest, TellsWhatToDoNext) {
  std::ostringstream err;
  PrintCallError(err, "enqueue",
                 ReadCallError(rpc::RpcStatus{rpc::Code::kUnavailable, "connection refused", ""}),
                 "127.0.0.1:1");
  EXPECT_EQ(err.str().find("error: enqueue: connection refused\n"), 0u);
  EXPECT_NE(err.str().find("millrace server --dev"), std::string::npos);
  EXPECT_NE(err.str().find("127.0.0.1:1"), std::string::npos);
}

TEST(CallErrorTest, TellsWhichSideOfTlsIsMissing) {
  const auto hint = [](const std::string& message) {
    return HintFor(ReadCallError(rpc::RpcStatus{rpc::Code::kUnavailable, message, ""}), "x:1");
  };
  EXPECT_NE(hint("the peer speaks TLS where plain text is spoken").find("give --tls"),
            std::string::npos);
  EXPECT_NE(hint("TLS handshake: the peer does not speak TLS").find("leave out --tls"),
            std::string::npos);
  EXPECT_NE(hint("TLS: the server asks for a client certificate").find("--tls-cert-file"),
            std::string::npos);
  EXPECT_EQ(hint("TLS handshake: certificate has expired"), "");
}

}  // namespace
}  // namespace millrace::cli
