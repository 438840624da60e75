#include "millrace/cli/record_reader.h"

#include <streambuf>
#include <utility>

#include <nlohmann/json.hpp>

namespace millrace::cli {
namespace {

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

RecordReader::RecordReader(std::istream& input, RecordFormat format, std::size_t record_bytes_max)
    : input_(input), format_(format), record_bytes_max_(record_bytes_max) {}

Result<bool> RecordReader::Next(std::string& record) {
  return format_ == RecordFormat::kRfc822 ? NextParagraph(record) : NextLine(record);
}

Result<bool> RecordReader::TakeLine(std::string& to) {
  using Traits = std::streambuf::traits_type;
  std::streambuf* const source = input_.rdbuf();
  const std::size_t before = to.size();
  for (;;) {
    const Traits::int_type got = source->sbumpc();
    if (Traits::eq_int_type(got, Traits::eof())) break;
    to += Traits::to_char_type(got);
    if (to.back() == '\n') break;
    if (to.size() > record_bytes_max_) {
      return Status(StatusCode::kInvalidArgument, "line " + std::to_string(lines_read_ + 1) +
                                                      ": the record is longer than " +
                                                      std::to_string(record_bytes_max_) + " bytes");
    }
  }
  if (input_.bad()) return Status(StatusCode::kInternal, "the input cannot be read");
  if (to.size() == before) return false;
  bytes_read_ += to.size() - before;
  ++lines_read_;
  return true;
}

Result<bool> RecordReader::NextLine(std::string& record) {
  for (;;) {
    record.clear();
    const Result<bool> more = TakeLine(record);
    if (!more.ok() || !*more) return more;
    record_line_ = lines_read_;
    if (record.back() == '\n') record.pop_back();
    if (format_ == RecordFormat::kLines) {
      if (record.empty()) continue;
      return true;
    }
    if (IsBlank(record)) continue;
    if (!nlohmann::json::accept(record)) {
      return Status(StatusCode::kInvalidArgument,
                    "line " + std::to_string(lines_read_) + ": not one JSON value");
    }
    return true;
  }
}

Result<bool> RecordReader::NextParagraph(std::string& record) {
  record.clear();
  for (;;) {
    line_.clear();
    const Result<bool> more = TakeLine(line_);
    if (!more.ok()) return more;
    if (!*more) return !record.empty();
    if (IsBlank(line_)) {
      if (!record.empty()) return true;
      continue;
    }
    if (record.empty()) record_line_ = lines_read_;
    record += line_;
    if (record.size() > record_bytes_max_) {
      return Status(StatusCode::kInvalidArgument, "line " + std::to_string(record_line_) +
                                                      ": the record is longer than " +
                                                      std::to_string(record_bytes_max_) + " bytes");
    }
  }
}

}  // namespace millrace::cli
