#include "millrace/rpc/wire_format.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "millrace/base/random.h"
#include "millrace/rpc/status.h"

namespace millrace::rpc {
namespace {

using std::chrono::hours;

TEST(TimeoutTest, ReadsEveryUnit) {
  EXPECT_EQ(ParseTimeout("1n"), Duration(1));
  EXPECT_EQ(ParseTimeout("1u"), Duration(1'000));
  EXPECT_EQ(ParseTimeout("1m"), Duration(1'000'000));
  EXPECT_EQ(ParseTimeout("1S"), Duration(1'000'000'000));
  EXPECT_EQ(ParseTimeout("1M"), std::chrono::minutes(1));
  EXPECT_EQ(ParseTimeout("1H"), hours(1));
  EXPECT_EQ(ParseTimeout("0n"), Duration(0));
  EXPECT_EQ(ParseTimeout("00000001S"), Duration(1'000'000'000));
  EXPECT_EQ(ParseTimeout("99999999n"), Duration(99'999'999));
}

TEST(TimeoutTest, CutsWhatIsLongerThanAHundredYears) {
  const Duration cut = *ParseTimeout("99999999H");
  EXPECT_EQ(cut, hours(100 * 365 * 24));
  EXPECT_EQ(ParseTimeout("876000H"), cut);
  EXPECT_EQ(ParseTimeout("875999H"), hours(875'999));
}

TEST(TimeoutTest, RefusesEverythingElse) {
  for (const char* bad : {"", "1", "S", "n", "-1S", "+1S", " 1S", "1S ", "1 S", "1.5S", "1s", "1h",
                          "123456789S", "1SS", "0x1S", "S1", "1000000000n"}) {
    EXPECT_EQ(ParseTimeout(bad), std::nullopt) << bad;
  }
  // Every two-byte text: a digit and a unit, and nothing but that.
  int good = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      if (ParseTimeout(text)) ++good;
    }
  }
  EXPECT_EQ(good, 10 * 6);
}

TEST(TimeoutTest, WrittenAndReadAgainItIsNeverShorter) {
  SeededRandom random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<std::int64_t>(random.Next() >> (1 + random.Below(62)));
    const Duration timeout(std::min<std::int64_t>(ns, Duration(hours(99 * 365 * 24)).count()));
    const std::string text = FormatTimeout(timeout);
    const std::optional<Duration> read = ParseTimeout(text);
    ASSERT_TRUE(read.has_value()) << text;
    ASSERT_GE(*read, timeout) << text;
    // Eight digits: at most one in 10^7 too long, but for a step of units.
    ASSERT_LE(read->count() - timeout.count(), 1 + timeout.count() / 16'000) << text;
  }
  EXPECT_EQ(FormatTimeout(Duration(0)), "1n");
  EXPECT_EQ(FormatTimeout(Duration(-5)), "1n");
  EXPECT_EQ(FormatTimeout(Duration(99'999'999)), "99999999n");
  EXPECT_EQ(FormatTimeout(Duration(100'000'000)), "100000u");
}

TEST(PercentTest, EncodesExactlyWhatIsNotPrintable) {
  for (int c = 0; c < 256; ++c) {
    const std::string text(1, static_cast<char>(c));
    const std::string encoded = PercentEncode(text);
    EXPECT_EQ(encoded == text, c >= 0x20 && c <= 0x7e && c != '%') << c;
    EXPECT_EQ(PercentDecode(encoded), text) << c;
  }
  EXPECT_EQ(PercentEncode("100 %\n\xc3\xbc"), "100 %25%0A%C3%BC");
}

TEST(PercentTest, KeepsWhatIsNoEscape) {
  for (const char* text : {"%", "%%", "%1", "%zz", "%1g", "100%", "a%", "%-1"}) {
    EXPECT_EQ(PercentDecode(text), text);
  }
  EXPECT_EQ(PercentDecode("%41%4"), "A%4");
  EXPECT_EQ(PercentDecode("%c3%bc"), "\xc3\xbc");
}

TEST(Base64Test, KnowsTheStandardVectors) {
  const std::pair<const char*, const char*> vectors[] = {
      {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},         {"foo", "Zm9v"},
      {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(Base64Encode(plain), encoded);
    EXPECT_EQ(Base64Decode(encoded), plain);
    std::string padded = encoded;
    while (padded.size() % 4 != 0) padded.push_back('=');
    EXPECT_EQ(Base64Decode(padded), plain);
  }
}

TEST(Base64Test, RoundTripsAllShortStrings) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string two = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(Base64Decode(Base64Encode(two)), two);
      const std::string three = {static_cast<char>(b), static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(Base64Decode(Base64Encode(three)), three);
    }
  }
}

TEST(Base64Test, RefusesBadText) {
  for (const char* bad :
       {"A", "AAAAA", "A===", "AA=A", "=AAA", "AAA-", "AA A", "AAAA=", "Zg=", "\xff\xff\xff\xff"}) {
    EXPECT_EQ(Base64Decode(bad), std::nullopt) << bad;
  }
}

TEST(StatusCodeTest, ReadsTheListAndNothingElse) {
  for (int i = 0; i <= 16; ++i) EXPECT_EQ(ParseStatusCode(std::to_string(i)), static_cast<Code>(i));
  for (const char* bad : {"", "17", "99", "-1", "x", "1x", "001", "100", " 1"}) {
    EXPECT_EQ(ParseStatusCode(bad), Code::kUnknown) << bad;
  }
  std::set<std::string_view> names;
  for (int i = 0; i <= 16; ++i) names.insert(CodeName(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(CodeName(static_cast<Code>(200)), "UNKNOWN");
}

TEST(StatusCodeTest, MapsHttpStatusAsPublished) {
  EXPECT_EQ(CodeOfHttpStatus(400), Code::kInternal);
  EXPECT_EQ(CodeOfHttpStatus(401), Code::kUnauthenticated);
  EXPECT_EQ(CodeOfHttpStatus(403), Code::kPermissionDenied);
  EXPECT_EQ(CodeOfHttpStatus(404), Code::kUnimplemented);
  for (const int status : {429, 502, 503, 504})
    EXPECT_EQ(CodeOfHttpStatus(status), Code::kUnavailable);
  for (const int status : {200, 302, 418, 500}) EXPECT_EQ(CodeOfHttpStatus(status), Code::kUnknown);
}

TEST(MetadataTest, SendsOnlyWhatMayBeSent) {
  EXPECT_TRUE(IsSendableMetadata("a-b_c.9", "text ~"));
  EXPECT_TRUE(IsSendableMetadata("raw-bin", std::string_view("\0\n\xff", 3)));
  EXPECT_TRUE(IsSendableMetadata("empty", ""));
  for (const char* name : {"", "Upper", ":path", "sp ace", "grpc-status", "grpc-anything-bin", "te",
                           "content-type", "connection", "host", "user-agent", "n\xc3\xa4me"}) {
    EXPECT_FALSE(IsSendableMetadata(name, "x")) << name;
  }
  for (const char* value : {"\n", "\x7f", "\xc3\xbc", "a\rb"})
    EXPECT_FALSE(IsSendableMetadata("name", value));
}

TEST(MetadataTest, DecodesBinaryValuesAndSplitsLists) {
  Metadata metadata;
  EXPECT_TRUE(AppendReceivedMetadata("text", "a,b", &metadata));
  EXPECT_TRUE(AppendReceivedMetadata("x-bin", "Zg==,Zm8, Zm9v", &metadata));
  EXPECT_TRUE(AppendReceivedMetadata("y-bin", "", &metadata));
  EXPECT_FALSE(AppendReceivedMetadata("z-bin", "Zg,!", &metadata));
  EXPECT_EQ(
      metadata,
      (Metadata{
          {"text", "a,b"}, {"x-bin", "f"}, {"x-bin", "fo"}, {"x-bin", "foo"}, {"y-bin", ""}}));
}

TEST(ListTest, FindsWholeTokensOnly) {
  EXPECT_TRUE(ListsToken("gzip", "gzip"));
  EXPECT_TRUE(ListsToken("identity, deflate , gzip", "gzip"));
  EXPECT_TRUE(ListsToken(",gzip,", "gzip"));
  EXPECT_FALSE(ListsToken("", "gzip"));
  EXPECT_FALSE(ListsToken("gzip2,xgzip", "gzip"));
  EXPECT_FALSE(ListsToken("identity,,", "gzip"));
}

TEST(ContentTypeTest, IsGrpcWithAnySubtypeOrParameter) {
  for (const char* good :
       {"application/grpc", "application/grpc+proto", "application/grpc;charset=x"}) {
    EXPECT_TRUE(IsGrpcContentType(good)) << good;
  }
  for (const char* bad : {"", "application/grpc-web", "application/json", "application/grp",
                          "text/application/grpc"}) {
    EXPECT_FALSE(IsGrpcContentType(bad)) << bad;
  }
}

}  // namespace
}  // namespace millrace::rpc
