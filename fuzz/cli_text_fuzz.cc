// What the command line reads: records of an input file, tokens as text, text that may not be
// UTF-8.

#include <sstream>

#include "fuzz_input.h"
#include "millrace/cli/base64url.h"
#include "millrace/cli/record_reader.h"
#include "millrace/cli/task_environment.h"
#include "millrace/cli/utf8.h"

namespace millrace::cli {
namespace {

using fuzz::FuzzInput;

void CheckRecords(FuzzInput& in) {
  constexpr RecordFormat kFormats[] = {RecordFormat::kLines, RecordFormat::kRfc822,
                                       RecordFormat::kJsonl};
  const RecordFormat format = kFormats[in.Below(3)];
  const std::size_t most = 1 + in.Byte();
  const std::string text(in.Rest());
  std::istringstream stream(text);
  RecordReader reader(stream, format, most);
  std::string record;
  std::size_t bytes = 0;
  std::int64_t line = 0;
  while (true) {
    const Result<bool> next = reader.Next(record);
    FUZZ_CHECK(reader.bytes_read() <= text.size());
    if (!next.ok()) {
      FUZZ_CHECK(next.code() == StatusCode::kInvalidArgument);
      FUZZ_CHECK(next.status().message().find("line ") != std::string_view::npos);
      return;
    }
    if (!*next) break;
    FUZZ_CHECK(!record.empty() && record.size() <= most);
    FUZZ_CHECK(text.find(record, bytes) != std::string::npos);
    bytes += record.size();
    FUZZ_CHECK(reader.record_line() > line);
    line = reader.record_line();
  }
  FUZZ_CHECK(reader.bytes_read() == text.size() && bytes <= text.size());
}

void CheckBase64(std::string_view text) {
  FUZZ_CHECK(Base64UrlDecode(Base64UrlEncode(text)) == text);
  const std::optional<std::string> bytes = Base64UrlDecode(text);
  if (!bytes) return;
  std::string bare(text);
  while (bare.ends_with('=')) bare.pop_back();
  FUZZ_CHECK(Base64UrlEncode(*bytes) == bare);
}

void CheckUtf8(FuzzInput& in) {
  const std::size_t most = 16 + in.Byte();
  const std::string text(in.Rest());
  (void)Utf8Length(text);
  const std::string cut = CutToUtf8(text, most);
  FUZZ_CHECK(IsUtf8(cut) && cut.size() <= most);
  if (IsUtf8(text) && text.size() <= most) FUZZ_CHECK(cut == text);
}

}  // namespace
}  // namespace millrace::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::cli;
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(3)) {
    case 0:
      CheckRecords(in);
      break;
    case 1:
      CheckBase64(in.Rest());
      break;
    default:
      CheckUtf8(in);
      break;
  }
  return 0;
}
