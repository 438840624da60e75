#include "millrace/cli/units.h"

#include <chrono>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(UnitsTest, FormatsForPeople) {
  EXPECT_EQ(ShowDuration(Duration::zero()), "0s");
  EXPECT_EQ(ShowDuration(microseconds(12)), "12us");
  EXPECT_EQ(ShowDuration(milliseconds(250)), "250ms");
  EXPECT_EQ(ShowDuration(microseconds(2400)), "2.4ms");
  EXPECT_EQ(ShowDuration(milliseconds(4200)), "4.2s");
  EXPECT_EQ(ShowDuration(seconds(125)), "2m05s");
  EXPECT_EQ(ShowDuration(minutes(90)), "1h30m");
  EXPECT_EQ(ShowDuration(hours(50)), "2d2h");
  EXPECT_EQ(ShowDuration(-seconds(5)), "-5.0s");
  EXPECT_EQ(ShowCount(0), "0");
  EXPECT_EQ(ShowCount(999), "999");
  EXPECT_EQ(ShowCount(1000), "1,000");
  EXPECT_EQ(ShowCount(-1234567), "-1,234,567");
  EXPECT_EQ(ShowRate(42.04), "42.0");
  EXPECT_EQ(ShowRate(1234), "1.23k");
  EXPECT_EQ(ShowRate(45678900), "45.7M");
  EXPECT_EQ(ShowBytes(512), "512 B");
  EXPECT_EQ(ShowBytes(1572864), "1.50 MiB");
}

}  // namespace
}  // namespace millrace::cli
