#pragma once

#include <string>
#include <string_view>

namespace millrace::server {

// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

std::string JsonString(std::string_view text);

}  // namespace millrace::server
