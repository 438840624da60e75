// Errors as Go's services make and read them.

#include "millrace/temporal/error_details.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "google/rpc/status.pb.h"
#include "millrace/temporal/wire_vectors.h"

namespace millrace::temporal {
namespace {

namespace enums = ::temporal::api::enums::v1;

struct GoError {
  ErrorKind kind;
  rpc::Code code;
  const char* status;  // google.rpc.Status as Go's serviceerror makes it.
  rpc::RpcStatus ours;
};

// What a client sees of the status: Go sends details only when there are some.
rpc::RpcStatus OnTheWire(const char* hex) {
  const std::string bytes = vectors::Bytes(hex);
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(bytes));
  rpc::RpcStatus status;
  status.code = static_cast<rpc::Code>(rich.code());
  status.message = rich.message();
  if (!rich.details().empty()) status.details = bytes;
  return status;
}

std::vector<GoError> GoErrors() {
  using enum ErrorKind;
  return {
      {kNotFound, rpc::Code::kNotFound,
       "08051204676f6e651a420a40747970652e676f6f676c65617069732e636f6d2f74656d706f72616c"
       "2e6170692e6572726f7264657461696c732e76312e4e6f74466f756e644661696c757265",
       NotFoundError("gone")},
      {kNamespaceNotFound,
       rpc::Code::kNotFound,
       "0805121a4e616d657370616365206e73206973206e6f7420666f756e642e1a510a49747970652e67"
       "6f6f676c65617069732e636f6d2f74656d706f72616c2e6170692e6572726f7264657461696c732e"
       "76312e4e616d6573706163654e6f74466f756e644661696c75726512040a026e73",
       {}},
      {kTaskAlreadyStarted, rpc::Code::kAlreadyExists,
       "0806121e576f726b666c6f77207461736b20616c726561647920737461727465642e1a530a517479"
       "70652e676f6f676c65617069732e636f6d2f74656d706f72616c2e7365727665722e6170692e6572"
       "726f7264657461696c732e76312e5461736b416c7265616479537461727465644661696c757265",
       TaskAlreadyStartedError()},
      {kShardOwnershipLost, rpc::Code::kAborted,
       "080a12385368617264206973206f776e65642062793a31302e302e302e323a373233342062757420"
       "6e6f742062792031302e302e302e313a373233341a730a51747970652e676f6f676c65617069732e"
       "636f6d2f74656d706f72616c2e7365727665722e6170692e6572726f7264657461696c732e76312e"
       "53686172644f776e6572736869704c6f73744661696c757265121e0a0d31302e302e302e323a3732"
       "3334120d31302e302e302e313a37323334",
       ShardOwnershipLostError("10.0.0.2:7234", "10.0.0.1:7234")},
      {kStickyWorkerUnavailable, rpc::Code::kUnavailable,
       "080e123a737469636b7920776f726b657220756e617661696c61626c652c20706c65617365207573"
       "65206f726967696e616c207461736b2071756575652e1a580a56747970652e676f6f676c65617069"
       "732e636f6d2f74656d706f72616c2e7365727665722e6170692e6572726f7264657461696c732e76"
       "312e537469636b79576f726b6572556e617661696c61626c654661696c757265",
       StickyWorkerUnavailableError()},
      {kResourceExhausted, rpc::Code::kResourceExhausted,
       "08081204627573791a510a49747970652e676f6f676c65617069732e636f6d2f74656d706f72616c"
       "2e6170692e6572726f7264657461696c732e76312e5265736f757263654578686175737465644661"
       "696c757265120408051001",
       ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW,
                              enums::RESOURCE_EXHAUSTED_SCOPE_NAMESPACE, "busy")},
      {kNamespaceHandover, rpc::Code::kUnavailable,
       "080e12284e616d657370616365207265706c69636174696f6e20696e2048616e646f766572207374"
       "6174652e",
       NamespaceHandoverError()},
      {kObsoleteDispatchBuildId, rpc::Code::kFailedPrecondition,
       "080912036f6c641a580a56747970652e676f6f676c65617069732e636f6d2f74656d706f72616c2e"
       "7365727665722e6170692e6572726f7264657461696c732e76312e4f62736f6c6574654469737061"
       "7463684275696c6449644661696c757265",
       ObsoleteDispatchBuildIdError("old")},
      {kObsoleteMatchingTask, rpc::Code::kFailedPrecondition,
       "080912036f6c641a550a53747970652e676f6f676c65617069732e636f6d2f74656d706f72616c2e"
       "7365727665722e6170692e6572726f7264657461696c732e76312e4f62736f6c6574654d61746368"
       "696e675461736b4661696c757265",
       ObsoleteMatchingTaskError("old")},
      {kActivityStartDuringTransition, rpc::Code::kFailedPrecondition,
       "08091235616374697669747920737461727420617474656d7074656420647572696e67206465706c"
       "6f796d656e74207472616e736974696f6e1a5e0a5c747970652e676f6f676c65617069732e636f6d"
       "2f74656d706f72616c2e7365727665722e6170692e6572726f7264657461696c732e76312e416374"
       "69766974795374617274447572696e675472616e736974696f6e4661696c757265",
       ActivityStartDuringTransitionError()},
      {kStalePartitionCounts, rpc::Code::kAborted,
       "080a12057374616c651a550a53747970652e676f6f676c65617069732e636f6d2f74656d706f7261"
       "6c2e7365727665722e6170692e6572726f7264657461696c732e76312e5374616c65506172746974"
       "696f6e436f756e74734661696c757265",
       StalePartitionCountsError("stale")},
      {kQueryFailed, rpc::Code::kInvalidArgument,
       "080312026e6f1a4e0a43747970652e676f6f676c65617069732e636f6d2f74656d706f72616c2e61"
       "70692e6572726f7264657461696c732e76312e51756572794661696c65644661696c75726512070a"
       "050a03776879",
       QueryFailedError("no", "\x0a\x03why")},
      {kRemoteSyncMatchFailed, rpc::Code::kCancelled,
       "0801121872656d6f74652073796e63206d61746368206661696c6564", RemoteSyncMatchFailedError()},
      {kSystemWorkflow,
       rpc::Code::kInternal,
       "080d124353797374656d20576f726b666c6f77207769746820576f726b666c6f774964207720616e"
       "642052756e4964202072657475726e656420616e206572726f723a206261641a540a46747970652e"
       "676f6f676c65617069732e636f6d2f74656d706f72616c2e6170692e6572726f7264657461696c73"
       "2e76312e53797374656d576f726b666c6f774661696c757265120a0a030a01771203626164",
       {}},
      {kOther, rpc::Code::kInternal, "080d12046f6f7073", {}},
      {kOther, rpc::Code::kDataLoss, "080f12046c6f7374", {}},
      {kOther, rpc::Code::kUnavailable, "080e12056c61746572", {}},
  };
}

TEST(ErrorDetails, GosErrorsAreReadAsWhatTheyAre) {
  for (const GoError& error : GoErrors()) {
    const ServiceError read = ReadServiceError(OnTheWire(error.status));
    EXPECT_EQ(read.kind, error.kind) << OnTheWire(error.status).message;
    EXPECT_EQ(read.code, error.code);
  }
}

// Go tells errors apart by code and detail; the message is for people, except where it is all there
// is.
TEST(ErrorDetails, OursAreGosButForTheWords) {
  for (const GoError& error : GoErrors()) {
    if (error.ours.ok()) continue;
    const rpc::RpcStatus theirs = OnTheWire(error.status);
    EXPECT_EQ(error.ours.code, theirs.code) << theirs.message;
    EXPECT_EQ(ReadServiceError(error.ours).kind, error.kind) << theirs.message;
    ASSERT_EQ(error.ours.details.empty(), theirs.details.empty()) << theirs.message;
    if (theirs.details.empty()) {
      EXPECT_EQ(error.ours.message, theirs.message);
      continue;
    }
    google::rpc::Status ours;
    google::rpc::Status go;
    ASSERT_TRUE(ours.ParseFromString(error.ours.details));
    ASSERT_TRUE(go.ParseFromString(theirs.details));
    EXPECT_EQ(ours.message(), error.ours.message);
    ours.set_message(go.message());
    EXPECT_EQ(ours.SerializeAsString(), go.SerializeAsString()) << theirs.message;
  }
}

TEST(ErrorDetails, WhatTheDetailsSayIsRead) {
  const ServiceError lost = ReadServiceError(ShardOwnershipLostError("b:1", "a:1"));
  EXPECT_EQ(lost.owner_host, "b:1");
  EXPECT_EQ(lost.current_host, "a:1");
  const ServiceError busy =
      ReadServiceError(ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT,
                                              enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM, "full"));
  EXPECT_EQ(busy.cause, enums::RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT);
  EXPECT_EQ(busy.scope, enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM);
  EXPECT_EQ(ReadServiceError(QueryFailedError("no", "\x0a\x01x")).failure, "\x0a\x01x");
}

TEST(ErrorDetails, ADetailUnderAnotherCodeCountsForNothing) {
  for (const GoError& error : GoErrors()) {
    const rpc::RpcStatus theirs = OnTheWire(error.status);
    if (theirs.details.empty()) continue;
    for (int code = 1; code <= 16; ++code) {
      rpc::RpcStatus other = theirs;
      other.code = static_cast<rpc::Code>(code);
      if (other.code == theirs.code) continue;
      const ErrorKind kind = ReadServiceError(other).kind;
      const ErrorKind plain = ReadServiceError({other.code, other.message, {}}).kind;
      EXPECT_EQ(kind, plain) << theirs.message << " as " << code;
    }
  }
}

TEST(ErrorDetails, NonsenseInTheDetailsIsAsGoodAsNone) {
  for (const char* bytes : {"\xff", "\x1a\x05xx", "\x1a\x02\x0a\x00", "\x08\x05"}) {
    const rpc::RpcStatus status{rpc::Code::kAborted, "m", bytes};
    EXPECT_EQ(ReadServiceError(status).kind, ErrorKind::kOther) << bytes;
  }
}

TEST(ErrorDetails, NoFailureOfTheEngineMakesHistoryDropTheTask) {
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    const rpc::RpcStatus status = EngineError({static_cast<StatusCode>(code), "m"});
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message, "m");
    EXPECT_NE(status.code, rpc::Code::kNotFound);
    EXPECT_NE(status.code, rpc::Code::kDataLoss);
    EXPECT_NE(status.code, rpc::Code::kInternal);
  }
  EXPECT_TRUE(EngineError({}).ok());
  EXPECT_EQ(ReadServiceError(EngineError({StatusCode::kResourceExhausted, "m"})).kind,
            ErrorKind::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::temporal
