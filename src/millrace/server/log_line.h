#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "millrace/base/log.h"
#include "millrace/base/time.h"
#include "millrace/server/config.h"

namespace millrace::server {

// "2025-03-01T12:00:00.123456Z".
std::string Rfc3339(WallTime time);

std::string_view LogLevelName(LogLevel level);

// One whole line with its newline. Text: time, level, component, message, then name=value with
// quotes where a value needs them. JSON: an object with ts, level, component, msg, then the fields.
// A field never breaks the line.
std::string FormatLogLine(LogFormat format, WallTime time, LogLevel level,
                          std::string_view component, std::string_view message,
                          std::initializer_list<LogField> fields);

}  // namespace millrace::server
