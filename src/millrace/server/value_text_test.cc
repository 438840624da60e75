#include "millrace/server/value_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::server {
namespace {

TEST(ValueTextTest, DurationsReadAllUnitsAndSums) {
  EXPECT_EQ(*ParseDuration("30s"), std::chrono::seconds(30));
  EXPECT_EQ(*ParseDuration("250ms"), std::chrono::milliseconds(250));
  EXPECT_EQ(*ParseDuration("1m30s"), std::chrono::seconds(90));
  EXPECT_EQ(*ParseDuration("1.5h"), std::chrono::minutes(90));
  EXPECT_EQ(*ParseDuration("2d"), std::chrono::hours(48));
  EXPECT_EQ(*ParseDuration("7ns"), Duration(7));
  EXPECT_EQ(*ParseDuration(" 5us "), std::chrono::microseconds(5));
  EXPECT_EQ(*ParseDuration("0"), Duration::zero());
}

TEST(ValueTextTest, DurationsRefuseWhatIsNotOne) {
  for (const char* text :
       {"", "s", "30", "30 s", "-5s", "5 parsecs", "1.2.3s", "s5", "10S", "1e3s"}) {
    const auto result = ParseDuration(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseDuration("999999999999h").ok());
  EXPECT_FALSE(ParseDuration("106751d106751d").ok());
}

TEST(ValueTextTest, DurationsPrintWhatTheyRead) {
  for (const char* text : {"0s", "30s", "250ms", "1m30s", "5m", "60h", "1h1ns", "3us"}) {
    EXPECT_EQ(FormatDuration(*ParseDuration(text)), text);
  }
  EXPECT_EQ(FormatDuration(std::chrono::hours(48)), "48h");
}

TEST(ValueTextTest, SizesReadBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("1500"), 1500);
  EXPECT_EQ(*ParseSize("64MiB"), 64 << 20);
  EXPECT_EQ(*ParseSize("64 mib"), 64 << 20);
  EXPECT_EQ(*ParseSize("2GB"), 2'000'000'000);
  EXPECT_EQ(*ParseSize("0.5KiB"), 512);
  for (const char* text : {"", "MiB", "-1", "5 apples", "1K", "99999999TiB"})
    EXPECT_FALSE(ParseSize(text).ok()) << text;
}

TEST(ValueTextTest, SizesPrintWhatTheyRead) {
  for (const char* text : {"64MiB", "1GiB", "1500B", "0B", "3TiB", "1KiB"})
    EXPECT_EQ(FormatSize(*ParseSize(text)), text);
}

TEST(ValueTextTest, ListsLeaveOutSpacesAndWhatIsEmpty) {
  using List = std::vector<std::string>;
  EXPECT_EQ(SplitList(""), List{});
  EXPECT_EQ(SplitList(" , "), List{});
  EXPECT_EQ(SplitList(" a:1 ,,b:2,"), (List{"a:1", "b:2"}));
}

TEST(ValueTextTest, IntegersAndBools) {
  EXPECT_EQ(*ParseInteger("10_000"), 10'000);
  EXPECT_EQ(*ParseInteger("-3"), -3);
  EXPECT_EQ(*ParseInteger("+3"), 3);
  for (const char* text : {"", "1.5", "0x10", "ten", "99999999999999999999"})
    EXPECT_FALSE(ParseInteger(text).ok()) << text;
  EXPECT_TRUE(*ParseBool("Yes"));
  EXPECT_TRUE(*ParseBool("1"));
  EXPECT_FALSE(*ParseBool("off"));
  EXPECT_FALSE(ParseBool("maybe").ok());
}

}  // namespace
}  // namespace millrace::server
