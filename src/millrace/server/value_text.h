#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/base/time.h"

// How settings are written by people. Parsers fail with kInvalidArgument and a message that says
// what is expected.
namespace millrace::server {

// "250ms", "30s", "1m30s", "1.5h"; units ns us ms s m h d. A bare "0" is allowed, any other number
// needs a unit.
Result<Duration> ParseDuration(std::string_view text);
// Shortest exact form that ParseDuration reads back: "1m30s", "250ms", "0s".
std::string FormatDuration(Duration value);

// "1048576", "64KiB", "1MiB", "2GB"; units B KiB MiB GiB TiB (1024) and KB MB GB TB (1000).
Result<std::int64_t> ParseSize(std::string_view text);
// Largest binary unit that divides the value: "64MiB", "1500B".
std::string FormatSize(std::int64_t bytes);

// Decimal, with an optional sign; "_" may group digits.
Result<std::int64_t> ParseInteger(std::string_view text);

// true/false, yes/no, on/off, 1/0, in any case.
Result<bool> ParseBool(std::string_view text);

// The parts between commas, without spaces around them; empty ones are left out.
std::vector<std::string> SplitList(const std::string& text);

}  // namespace millrace::server
