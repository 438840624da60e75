#include "millrace/queue/request_checks.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace::queue {
namespace {

using std::chrono::seconds;

google::protobuf::Duration Proto(std::int64_t s, std::int32_t n) {
  google::protobuf::Duration d;
  d.set_seconds(s);
  d.set_nanos(n);
  return d;
}

TEST(RequestChecks, DurationsThatMakeNoSenseAreRefused) {
  EXPECT_FALSE(FromProto(Proto(1, -1)));
  EXPECT_FALSE(FromProto(Proto(-1, 1)));
  EXPECT_FALSE(FromProto(Proto(0, 1'000'000'000)));
  EXPECT_FALSE(FromProto(Proto(std::numeric_limits<std::int64_t>::max(), 0)));
  EXPECT_FALSE(FromProto(Proto(std::numeric_limits<std::int64_t>::min(), 0)));
  EXPECT_EQ(FromProto(Proto(1, 500'000'000)), Duration(1'500'000'000));
  EXPECT_EQ(FromProto(Proto(-1, -500'000'000)), Duration(-1'500'000'000));
  EXPECT_GT(*FromProto(Proto(9'000'000'000, 0)), std::chrono::hours(24 * 365 * 50))
      << "long ones are cut, not wrapped";
}

TEST(RequestChecks, DurationBoundsAreInclusive) {
  for (int s = 0; s <= 12; ++s) {
    FieldErrors errors;
    const Duration got =
        CheckDuration("d", true, Proto(s, 0), seconds(5), seconds(1), seconds(10), errors);
    const bool good = s >= 1 && s <= 10;
    EXPECT_EQ(errors.empty(), good) << s;
    EXPECT_EQ(got, good ? seconds(s) : seconds(5));
  }
  FieldErrors errors;
  EXPECT_EQ(CheckDuration("d", false, Proto(0, 0), seconds(5), seconds(1), seconds(10), errors),
            seconds(5));
  EXPECT_TRUE(errors.empty());
}

TEST(RequestChecks, QueueNames) {
  for (const char* good : {"a", "A.b_c-d/e", "0"}) EXPECT_EQ(CheckQueueName(good), "") << good;
  for (const char* bad : {"", "/a", "a b", "ä", "a\n", "a*"})
    EXPECT_NE(CheckQueueName(bad), "") << bad;
  EXPECT_EQ(CheckQueueName(std::string(200, 'q')), "");
  EXPECT_NE(CheckQueueName(std::string(201, 'q')), "");
  EXPECT_NE(CheckQueueName(std::string("a\0b", 3)), "");
}

TEST(RequestChecks, PageTokensRoundTripAndNothingElseIsOne) {
  std::string bytes;
  for (int length = 0; length < 40; ++length) {
    EXPECT_EQ(DecodePageToken(EncodePageToken(bytes)), bytes);
    bytes.push_back(static_cast<char>(length * 37));
  }
  EXPECT_FALSE(DecodePageToken("a"));
  EXPECT_FALSE(DecodePageToken("a+b="));
  EXPECT_FALSE(DecodePageToken("ab/"));
}

TEST(FieldErrors, NamesEveryField) {
  FieldErrors errors;
  errors.Add("queue", "is needed");
  errors.Add("tasks", "too many");
  const rpc::RpcStatus status = errors.ToRpcStatus();
  EXPECT_EQ(status.code, rpc::Code::kInvalidArgument);
  EXPECT_EQ(status.message, "queue: is needed; tasks: too many");
  EXPECT_NE(status.details.find("google.rpc.BadRequest"), std::string::npos);
}

TEST(QueueError, EveryStatusCodeHasAnAnswer) {
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    const QueueError error = QueueError::From(Status(static_cast<StatusCode>(code), "m"));
    EXPECT_FALSE(error.ok()) << code;
    EXPECT_EQ(ToRpcStatus(error).message, "m");
  }
  EXPECT_TRUE(QueueError::From(OkStatus()).ok());
  EXPECT_EQ(QueueError::From(Status(StatusCode::kUnknownOutcome, "")).reason,
            Reason::kOutcomeUnknown);
  EXPECT_EQ(QueueError::From(Status(StatusCode::kUnavailable, "")).reason, Reason::kStoreReadOnly);
  EXPECT_NE(ToRpcStatus(QueueError::LeaseLost()).details.find("LEASE_LOST"), std::string::npos);
}

}  // namespace
}  // namespace millrace::queue
