#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "millrace/base/time.h"

namespace millrace::cli {

struct ProgressState {
  std::int64_t items = 0;
  std::string noun = "tasks";
  Duration elapsed{};
  std::optional<double> fraction{};  // Of the whole, when that is known.
  std::string note{};                // "waiting for the server".
};

// "12,345 tasks  4.1k/s  62%  12s left".
std::string ProgressText(const ProgressState& state);

// A line on a terminal that is written over again and again. Not a terminal: nothing at all.
class ProgressLine {
 public:
  ProgressLine(std::ostream& err, bool enabled) : err_(err), enabled_(enabled) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  [[nodiscard]] bool enabled() const { return enabled_; }
  void Show(const ProgressState& state);
  // So that other lines can be written.
  void Clear();

 private:
  std::ostream& err_;
  const bool enabled_;
  bool shown_ = false;
};

}  // namespace millrace::cli
