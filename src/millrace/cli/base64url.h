#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

// Bytes as text that needs no quoting in a shell or URL (RFC 4648 section 5, without padding).
std::string Base64UrlEncode(std::string_view bytes);

// Accepts missing or right padding. Empty optional when a character, the length or the spare bits
// are wrong, so that every byte string has one spelling.
std::optional<std::string> Base64UrlDecode(std::string_view text);

}  // namespace millrace::cli
