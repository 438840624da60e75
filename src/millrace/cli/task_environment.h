#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// "X-Trace.id" -> "MILLRACE_HEADER_X_TRACE_ID".
std::string HeaderVariable(std::string_view header);

// `base` without MILLRACE_TASK_ID, _ATTEMPT, _MAX_ATTEMPTS, _QUEUE, _ENQUEUE_TIME and _HEADER_*,
// then those of the task. Headers whose value holds a zero byte cannot be passed and are left out.
std::vector<std::string> TaskEnvironment(const std::vector<std::string>& base,
                                         const std::string& queue, const v1::LeasedTask& task);

// RFC 3339 in UTC with milliseconds.
std::string TimestampText(const google::protobuf::Timestamp& time);

// Valid UTF-8 of at most `bytes_max` bytes: what is not UTF-8 becomes "?", and when it is too long
// the middle goes.
std::string CutToUtf8(std::string text, std::size_t bytes_max);

}  // namespace millrace::cli
