#pragma once

#include <cstdint>
#include <string>

#include "millrace/base/time.h"

// Quantities for people's eyes. The exact forms that can be read back are in server/value_text.h.
namespace millrace::cli {

// Two parts at most: "1h30m", "2m05s", "4.2s", "250ms", "12us".
std::string ShowDuration(Duration duration);

// With separators: 1234567 -> "1,234,567".
std::string ShowCount(std::int64_t count);

// "999", "12.3k", "4.56M": three digits, for rates.
std::string ShowRate(double per_second);

// "512 B", "1.50 MiB".
std::string ShowBytes(std::uint64_t bytes);

}  // namespace millrace::cli
