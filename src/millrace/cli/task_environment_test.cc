#include "millrace/cli/task_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(TaskEnvironmentTest, NamesTheTask) {
  v1::LeasedTask task;
  task.set_task_id("7-42");
  task.set_attempt(2);
  task.set_max_attempts(5);
  task.mutable_enqueue_time()->set_seconds(1'700'000'000);
  task.mutable_enqueue_time()->set_nanos(123'456'789);
  (*task.mutable_headers())["trace-id"] = "abc=d";
  (*task.mutable_headers())["zero"] = std::string("a\0b", 3);
  const auto environment = TaskEnvironment(
      {"PATH=/bin", "MILLRACE_TASK_ID=outer", "MILLRACE_HEADER_OLD=1", "MILLRACE_ADDRESS=x:1"},
      "mail", task);
  EXPECT_THAT(environment,
              testing::UnorderedElementsAre("PATH=/bin", "MILLRACE_ADDRESS=x:1",
                                            "MILLRACE_TASK_ID=7-42", "MILLRACE_ATTEMPT=2",
                                            "MILLRACE_MAX_ATTEMPTS=5", "MILLRACE_QUEUE=mail",
                                            "MILLRACE_ENQUEUE_TIME=2023-11-14T22:13:20.123Z",
                                            "MILLRACE_HEADER_TRACE_ID=abc=d"));
}

TEST(TaskEnvironmentTest, HeaderVariablesAreShellNames) {
  EXPECT_EQ(HeaderVariable("X-Trace.id"), "MILLRACE_HEADER_X_TRACE_ID");
  EXPECT_EQ(HeaderVariable("\xC3\xA9"), "MILLRACE_HEADER___");
}

TEST(TaskEnvironmentTest, CutKeepsBothEndsAndWholeCharacters) {
  EXPECT_EQ(CutToUtf8("short \xFF", 100), "short ?");
  const std::string cut = CutToUtf8("code 1: " + std::string(500, 'x') + "end", 100);
  EXPECT_EQ(cut.size(), 100u);
  EXPECT_TRUE(cut.starts_with("code 1:"));
  EXPECT_TRUE(cut.ends_with("end"));
  std::string accents;
  for (int i = 0; i < 200; ++i) accents += "\xC3\xA9";
  for (std::size_t width = 20; width < 60; ++width) {
    const std::string part = CutToUtf8(accents, width);
    EXPECT_LE(part.size(), width);
    EXPECT_EQ(part.find('?'), std::string::npos);
    EXPECT_EQ(CutToUtf8(part, width), part);
  }
}

}  // namespace
}  // namespace millrace::cli
