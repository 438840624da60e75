#include "millrace/cli/progress.h"

#include <sstream>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(ProgressTest, RateShareAndTimeLeft) {
  EXPECT_EQ(ProgressText({.items = 12'000, .elapsed = std::chrono::seconds(10), .fraction = 0.25}),
            "12,000 tasks  1.20k/s  25%  30s left");
  EXPECT_EQ(ProgressText({.items = 5, .elapsed = std::chrono::seconds(10)}), "5 tasks  0.5/s");
  EXPECT_EQ(ProgressText({.items = 0, .elapsed = Duration::zero(), .fraction = 0.0}),
            "0 tasks  0%");
  EXPECT_EQ(ProgressText({.items = 9, .elapsed = std::chrono::seconds(3), .note = "waiting"}),
            "9 tasks  3.0/s  (waiting)");
}

TEST(ProgressTest, SilentWhenNotATerminal) {
  std::ostringstream err;
  {
    ProgressLine line(err, false);
    line.Show({.items = 1, .elapsed = std::chrono::seconds(1)});
  }
  EXPECT_EQ(err.str(), "");
}

TEST(ProgressTest, LeavesNoTraceOnATerminal) {
  std::ostringstream err;
  {
    ProgressLine line(err, true);
    line.Show({.items = 1, .elapsed = std::chrono::seconds(1)});
  }
  EXPECT_TRUE(err.str().ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace millrace::cli
