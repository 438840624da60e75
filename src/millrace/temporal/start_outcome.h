#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/rpc/status.h"

namespace millrace::temporal {

// What becomes of a task after history was asked to start it.
enum class TaskFate : std::uint8_t {
  kStarted,  // It is the poller's now.
  kDrop,     // It is over; nobody will ever start it.
  kRewrite,  // It goes to the tail of the backlog, under a new id.
};

// What becomes of the poller that was to have it.
enum class PollerFate : std::uint8_t {
  kAnswer,
  kPollOn,
  kError,  // History's error goes to the worker, which backs off.
};

// Names are used in metrics.
enum class DropReason : std::uint8_t { kNone, kNotFound, kInvalid, kInternalError, kDataLoss };
std::string_view DropReasonName(DropReason reason);

struct StartOutcome {
  TaskFate task = TaskFate::kRewrite;
  PollerFate poller = PollerFate::kPollOn;
  DropReason drop_reason = DropReason::kNone;  // Set when the task is dropped.
  // Trouble of history itself rather than of this task: the next task will fare no better for a
  // while, so whoever polls on waits first.
  bool wait_before_next = false;
};

StartOutcome ClassifyStart(const rpc::RpcStatus& status);

}  // namespace millrace::temporal
