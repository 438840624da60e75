#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "millrace/base/check.h"

namespace millrace {

// A code exists only if some caller does something different for it.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kUnavailable,        // The callee surely did not do it; the same call may be tried again.
  kUnknownOutcome,     // It may have been applied, or may be applied later: fence, then read again.
  kFenced,             // Another owner holds the range id: unload, write nothing more.
  kResourceExhausted,  // A bound was reached; surely not done.
  kNotFound,
  kInvalidArgument,
  kAlreadyExists,
  kFailedPrecondition,
  kCancelled,
  kDeadlineExceeded,
  kShuttingDown,  // This owner is going away; another one will answer.
  kCorruption,    // Stored bytes are damaged: fault that queue, keep the process.
  kInternal,
};

// Stable upper-case name, for example "RESOURCE_EXHAUSTED".
std::string_view StatusCodeName(StatusCode code);

// The outcome of an operation: a code and, when not ok, a message for people. One pointer in size;
// ok allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  [[nodiscard]] bool ok() const { return rep_ == nullptr; }
  [[nodiscard]] StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  [[nodiscard]] std::string_view message() const {
    return rep_ ? std::string_view(rep_->message) : std::string_view();
  }
  // "CODE: message", or "OK".
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);
std::ostream& operator<<(std::ostream& out, StatusCode code);

inline Status OkStatus() { return {}; }

// A value or the status that says why there is none (never an ok status).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    MR_CHECK(!std::get<Status>(state_).ok());
  }

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  [[nodiscard]] StatusCode code() const {
    return ok() ? StatusCode::kOk : std::get<Status>(state_).code();
  }

  T& value() & {
    MR_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    MR_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    MR_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace millrace

#define MR_RETURN_IF_ERROR(expression)            \
  do {                                            \
    ::millrace::Status mr_status_ = (expression); \
    if (!mr_status_.ok()) return mr_status_;      \
  } while (false)
