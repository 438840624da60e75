#pragma once

#include <string>
#include <utility>

#include "millrace/sim_world/judge.h"

namespace millrace::sim {

// Rides in a callback and complains unless the callback is called exactly once before it is
// destroyed.
class AnswerOnce {
 public:
  AnswerOnce(Judge& judge, std::string what) : judge_(&judge), what_(std::move(what)) {}
  AnswerOnce(AnswerOnce&& other) noexcept
      : judge_(std::exchange(other.judge_, nullptr)),
        what_(std::move(other.what_)),
        answered_(other.answered_) {}
  AnswerOnce& operator=(AnswerOnce&&) = delete;
  AnswerOnce(const AnswerOnce&) = delete;
  AnswerOnce& operator=(const AnswerOnce&) = delete;
  ~AnswerOnce() {
    if (judge_ != nullptr && !answered_) judge_->Fail(what_ + " was never answered");
  }

  void Answer() {
    if (answered_) judge_->Fail(what_ + " was answered twice");
    answered_ = true;
  }

 private:
  Judge* judge_;
  std::string what_;
  bool answered_ = false;
};

}  // namespace millrace::sim
