#include "millrace/cli/record_reader.h"

#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

struct ReadAll {
  std::vector<std::string> records;
  Status status;
};

ReadAll Read(const std::string& text, RecordFormat format, std::size_t bytes_max = 1000) {
  std::istringstream input(text);
  RecordReader reader(input, format, bytes_max);
  ReadAll all;
  std::string record;
  for (;;) {
    const Result<bool> more = reader.Next(record);
    all.status = more.status();
    if (!more.ok() || !*more) break;
    all.records.push_back(record);
  }
  if (all.status.ok()) {
    EXPECT_EQ(reader.bytes_read(), text.size());
  }
  return all;
}

using Records = std::vector<std::string>;

TEST(RecordReaderTest, Lines) {
  EXPECT_EQ(Read("", RecordFormat::kLines).records, Records());
  EXPECT_EQ(Read("a", RecordFormat::kLines).records, Records({"a"}));
  EXPECT_EQ(Read("a\nb\n", RecordFormat::kLines).records, Records({"a", "b"}));
  EXPECT_EQ(Read("\n\na\r\n\n b", RecordFormat::kLines).records, Records({"a\r", " b"}));
}

TEST(RecordReaderTest, LinesKeepEveryByte) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) {
    if (c != '\n') bytes += static_cast<char>(c);
  }
  EXPECT_EQ(Read(bytes + "\n", RecordFormat::kLines).records, Records({bytes}));
}

TEST(RecordReaderTest, Paragraphs) {
  const RecordFormat format = RecordFormat::kRfc822;
  EXPECT_EQ(Read("", format).records, Records());
  EXPECT_EQ(Read("\n \n\n", format).records, Records());
  EXPECT_EQ(Read("Package: a\nSize: 1\n\nPackage: b\n", format).records,
            Records({"Package: a\nSize: 1\n", "Package: b\n"}));
  EXPECT_EQ(Read("\n\nA: 1\n B\n\n\n \t\nC: 2", format).records, Records({"A: 1\n B\n", "C: 2"}));
}

TEST(RecordReaderTest, JsonLinesAreChecked) {
  const RecordFormat format = RecordFormat::kJsonl;
  EXPECT_EQ(Read("{\"a\":1}\n\n[2]\n3\n", format).records, Records({"{\"a\":1}", "[2]", "3"}));
  const ReadAll bad = Read("{}\n{\"a\":\n{}\n", format);
  EXPECT_EQ(bad.records, Records({"{}"}));
  EXPECT_EQ(bad.status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status.message().find("line 2"), std::string_view::npos);
}

TEST(RecordReaderTest, TooLongIsAnErrorInEveryFormat) {
  const std::string digits(11, '1');
  EXPECT_TRUE(Read(digits.substr(1) + "\n", RecordFormat::kLines, 10).status.ok());
  EXPECT_EQ(Read(digits, RecordFormat::kLines, 10).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(digits, RecordFormat::kJsonl, 10).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Read("a: 1\nb: 2\nc: 3\n", RecordFormat::kRfc822, 10).status.code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::cli
