#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "millrace/base/status.h"

namespace millrace::rpc {

// Unpacks one gzip member. Fails: kResourceExhausted when the result would pass `bytes_max` (memory
// stays below it), kInvalidArgument when the input is not one whole gzip member.
Result<std::string> Gunzip(std::string_view packed, std::size_t bytes_max);

std::string Gzip(std::string_view bytes);

}  // namespace millrace::rpc
