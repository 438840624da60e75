#include "millrace/cli/base64url.h"

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(Base64UrlTest, KnownVectors) {
  EXPECT_EQ(Base64UrlEncode(""), "");
  EXPECT_EQ(Base64UrlEncode("f"), "Zg");
  EXPECT_EQ(Base64UrlEncode("fo"), "Zm8");
  EXPECT_EQ(Base64UrlEncode("foo"), "Zm9v");
  EXPECT_EQ(Base64UrlEncode("\xfb\xff"), "-_8");
}

TEST(Base64UrlTest, EveryTwoBytesComeBack) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; b += 7) {
      const std::string bytes = {static_cast<char>(a), static_cast<char>(b)};
      EXPECT_EQ(Base64UrlDecode(Base64UrlEncode(bytes)), bytes);
    }
  }
}

TEST(Base64UrlTest, PaddingMayBeThereButMustBeRight) {
  EXPECT_EQ(Base64UrlDecode("Zg=="), "f");
  EXPECT_EQ(Base64UrlDecode("Zm8="), "fo");
  for (const char* text :
       {"Z", "Zg=", "Zm9v=", "Zm9v====", "Z===", "Zh", "Zm+v", "Zm/v", "Zm v", "="}) {
    EXPECT_FALSE(Base64UrlDecode(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace millrace::cli
