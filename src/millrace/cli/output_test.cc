#include "millrace/cli/output.h"

#include <sstream>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

const std::vector<Column> kColumns = {
    {"NAME", [](const Json& row) { return row["name"].get<std::string>(); }},
    {"COUNT", [](const Json& row) { return std::to_string(row["count"].get<int>()); }, true}};

std::string Rows(OutputFormat format, const std::vector<Json>& rows) {
  std::ostringstream out;
  PrintRows(out, format, kColumns, rows, "no rows");
  return out.str();
}

TEST(OutputTest, TableIsAligned) {
  EXPECT_EQ(Rows(OutputFormat::kTable,
                 {{{"name", "mail"}, {"count", 12}}, {{"name", "büro-2"}, {"count", 123456}}}),
            "NAME     COUNT\n"
            "mail        12\n"
            "büro-2  123456\n");
}

TEST(OutputTest, EmptyListIsSaidInATableAndEmptyInJson) {
  EXPECT_EQ(Rows(OutputFormat::kTable, {}), "no rows\n");
  EXPECT_EQ(Rows(OutputFormat::kJson, {}), "[]\n");
  EXPECT_EQ(Rows(OutputFormat::kJsonl, {}), "");
}

TEST(OutputTest, JsonlIsOneObjectALine) {
  EXPECT_EQ(
      Rows(OutputFormat::kJsonl, {{{"name", "a"}, {"count", 1}}, {{"name", "b\n"}, {"count", 2}}}),
      "{\"name\":\"a\",\"count\":1}\n{\"name\":\"b\\n\",\"count\":2}\n");
}

TEST(OutputTest, ObjectAsLines) {
  std::ostringstream out;
  PrintObject(out, OutputFormat::kTable,
              {{"queue", "q"}, {"counts", {{"done", 3}, {"waiting", 4}}}});
  EXPECT_EQ(out.str(), "queue   q\ncounts\n  done     3\n  waiting  4\n");
}

TEST(OutputTest, PayloadIsTextOnlyWhenItIsUtf8) {
  for (const std::string text : {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    Json object;
    SetPayload(object, text);
    EXPECT_EQ(object["payload"], text);
    EXPECT_EQ(object.size(), 1u);
  }
  for (const std::string bytes :
       {"\xFF", "a\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    Json object;
    SetPayload(object, bytes);
    EXPECT_FALSE(object.contains("payload"));
    EXPECT_TRUE(object.contains("payload_base64url"));
  }
}

TEST(OutputTest, ExcerptsNeverBreakATerminal) {
  EXPECT_EQ(Excerpt("plain", 20), "plain");
  EXPECT_EQ(Excerpt("a\nb\tc\x1b[2J", 30), "a\\nb\\tc\\x1b[2J");
  EXPECT_EQ(Excerpt("\xFF\x01", 30), "\\xff\\x01");
  EXPECT_EQ(Excerpt("0123456789", 10), "0123456789");
  EXPECT_EQ(Excerpt("0123456789abc", 10), "0123456...");
  EXPECT_EQ(Excerpt("012345\xC3\xA9xyzabc", 11), "012345\xC3\xA9...");
  EXPECT_EQ(Excerpt("0123456\xC3\xA9xyzabc", 11), "0123456...");
}

}  // namespace
}  // namespace millrace::cli
