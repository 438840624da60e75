#include "millrace/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace millrace {
namespace {

TEST(Status, OkHasNoMessageAndNoAllocation) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(sizeof(Status), sizeof(void*));
}

TEST(Status, CopiesAreIndependent) {
  Status a(StatusCode::kFenced, "range id 4, not 3");
  Status b = a;
  a = OkStatus();
  EXPECT_EQ(b.ToString(), "FENCED: range id 4, not 3");
  b = std::move(a);
  EXPECT_TRUE(b.ok());
}

TEST(Status, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_NE(StatusCodeName(static_cast<StatusCode>(code)), "INVALID_CODE") << code;
  }
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, CarriesTheError) {
  const Result<int> result(Status(StatusCode::kNotFound, "no such queue"));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.code(), StatusCode::kNotFound);
  EXPECT_DEATH((void)result.value(), "check failed");
}

}  // namespace
}  // namespace millrace
