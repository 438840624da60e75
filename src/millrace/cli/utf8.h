#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::cli {

// Bytes of the character at the front; 0 when there is none or the bytes are not UTF-8.
std::size_t Utf8Length(std::string_view bytes);

bool IsUtf8(std::string_view bytes);

}  // namespace millrace::cli
