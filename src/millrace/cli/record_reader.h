#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

#include "millrace/base/status.h"

namespace millrace::cli {

enum class RecordFormat {
  kLines,   // A line is a record, without its line feed; empty lines are skipped.
  kRfc822,  // Paragraphs of lines, divided by blank lines, each with its line feeds: package
            // indexes, control files.
  kJsonl,   // A line is a record and must be one JSON value; blank lines are skipped.
};

// Splits an input into records, one at a time.
//
// Thread: one at a time.
// Bounds: holds one record of at most `record_bytes_max`.
// Fails: kInvalidArgument, with the line number, when a record is too long or is not JSON where it
// should be; kInternal when the input cannot be read. Nothing can be read after a failure.
class RecordReader {
 public:
  RecordReader(std::istream& input, RecordFormat format, std::size_t record_bytes_max);

  // True: `record` is the next one. False: the input ended.
  Result<bool> Next(std::string& record);

  // Bytes taken from the input so far, for progress.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }
  // Line where the last record began, from 1.
  [[nodiscard]] std::int64_t record_line() const { return record_line_; }

 private:
  // Appends one line, with its line feed, to `to`. False at the end.
  Result<bool> TakeLine(std::string& to);
  Result<bool> NextLine(std::string& record);
  Result<bool> NextParagraph(std::string& record);

  std::istream& input_;
  const RecordFormat format_;
  const std::size_t record_bytes_max_;
  std::string line_;
  std::uint64_t bytes_read_ = 0;
  std::int64_t lines_read_ = 0;
  std::int64_t record_line_ = 0;
};

}  // namespace millrace::cli
