#pragma once

#include "millrace/base/status.h"

namespace millrace::backlog {

// Which of the store's answers to a conditional write leave it open whether the write happened.
[[nodiscard]] constexpr bool LeavesOutcomeOpen(StatusCode code) {
  switch (code) {
    case StatusCode::kUnknownOutcome:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

// Trying again later may work: the store, not the request or the data, is at fault.
[[nodiscard]] constexpr bool IsTransient(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kResourceExhausted ||
         LeavesOutcomeOpen(code);
}

}  // namespace millrace::backlog
