#pragma once

#include <string>
#include <utility>

namespace millrace::sim {

// Takes complaints of the checkers and keeps the first: what comes after a broken rule mostly
// follows from it. Thread: one at a time.
class Judge {
 public:
  void Fail(std::string what) {
    if (failed_) return;
    failed_ = true;
    violation_ = std::move(what);
  }
  // Fail unless `holds`.
  template <typename Describe>
  void Expect(bool holds, Describe describe) {
    if (!holds && !failed_) Fail(describe());
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] const std::string& violation() const { return violation_; }

 private:
  bool failed_ = false;
  std::string violation_;
};

}  // namespace millrace::sim
