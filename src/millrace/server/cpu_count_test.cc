#include "millrace/server/cpu_count.h"

#include <gtest/gtest.h>

namespace millrace::server {
namespace {

TEST(CpuCountTest, QuotasRoundUp) {
  EXPECT_EQ(CoresOfQuotaV2("200000 100000"), 2);
  EXPECT_EQ(CoresOfQuotaV2("150000 100000"), 2);
  EXPECT_EQ(CoresOfQuotaV2("1000 100000"), 1);
  EXPECT_EQ(CoresOfQuotaV2("max 100000"), 0);
  EXPECT_EQ(CoresOfQuotaV2(""), 0);
  EXPECT_EQ(CoresOfQuotaV1("400000", "100000"), 4);
  EXPECT_EQ(CoresOfQuotaV1("-1", "100000"), 0);
  EXPECT_EQ(CoresOfQuotaV1("", ""), 0);
}

TEST(CpuCountTest, LoopsFollowCoresUpToFour) {
  EXPECT_EQ(EventLoopCount(0, 1), 1);
  EXPECT_EQ(EventLoopCount(0, 2), 2);
  EXPECT_EQ(EventLoopCount(0, 64), 4);
  EXPECT_EQ(EventLoopCount(7, 2), 7);
  EXPECT_GE(UsableCores(), 1);
}

}  // namespace
}  // namespace millrace::server
