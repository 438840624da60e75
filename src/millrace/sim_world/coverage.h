#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::sim {

// Counts how often runs came through rare places. A mark is declared before it can be reached, so
// that marks no run ever reached can be listed. Thread: one at a time.
class Coverage {
 public:
  void Declare(std::string_view mark) { marks_.try_emplace(std::string(mark), 0); }
  void Reach(std::string_view mark, std::uint64_t times = 1) {
    const auto it = marks_.find(mark);
    if (it != marks_.end()) {
      it->second += times;
    } else {
      marks_.emplace(mark, times);
    }
  }
  void Merge(const Coverage& other) {
    for (const auto& [mark, times] : other.marks_) marks_[mark] += times;
  }
  [[nodiscard]] std::uint64_t times(std::string_view mark) const {
    const auto it = marks_.find(mark);
    return it == marks_.end() ? 0 : it->second;
  }
  [[nodiscard]] const std::map<std::string, std::uint64_t, std::less<>>& marks() const {
    return marks_;
  }
  [[nodiscard]] std::vector<std::string> NeverReached() const {
    std::vector<std::string> never;
    for (const auto& [mark, times] : marks_) {
      if (times == 0) never.push_back(mark);
    }
    return never;
  }

 private:
  std::map<std::string, std::uint64_t, std::less<>> marks_;
};

}  // namespace millrace::sim
