#include "millrace/cli/progress.h"

#include <algorithm>
#include <cmath>

#include "millrace/cli/units.h"

namespace millrace::cli {

std::string ProgressText(const ProgressState& state) {
  std::string text = ShowCount(state.items) + " " + state.noun;
  const double seconds = static_cast<double>(state.elapsed.count()) / 1e9;
  if (seconds > 0) text += "  " + ShowRate(static_cast<double>(state.items) / seconds) + "/s";
  if (state.fraction.has_value()) {
    const double fraction = std::clamp(*state.fraction, 0.0, 1.0);
    text += "  " + std::to_string(static_cast<int>(fraction * 100)) + "%";
    // Too early, an estimate is noise.
    if (fraction >= 0.01 && seconds >= 1) {
      const double left = seconds / fraction - seconds;
      text += "  " + ShowDuration(Duration(std::llround(left) * 1'000'000'000)) + " left";
    }
  }
  if (!state.note.empty()) text += "  (" + state.note + ")";
  return text;
}

void ProgressLine::Show(const ProgressState& state) {
  if (!enabled_) return;
  err_ << "\r\x1b[K" << ProgressText(state) << std::flush;
  shown_ = true;
}

void ProgressLine::Clear() {
  if (!shown_) return;
  err_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace millrace::cli
