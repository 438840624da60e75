#pragma once

#include <string>
#include <string_view>

namespace millrace::server {

// "0.1.0".
std::string_view Version();
// "gcc 12.2.0" and the like.
std::string_view Compiler();
// "Release", "Debug"; "" when the build did not say.
std::string_view BuildType();

// {"version": …, "compiler": …, "build_type": …}, one line without a newline.
std::string VersionJson();

}  // namespace millrace::server
