#include "millrace/server/version.h"

#include "millrace/server/json_text.h"

namespace millrace::server {

std::string_view Version() { return MILLRACE_VERSION; }

std::string_view Compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string_view BuildType() { return MILLRACE_BUILD_TYPE; }

std::string VersionJson() {
  return "{\"version\":" + JsonString(Version()) + ",\"compiler\":" + JsonString(Compiler()) +
         ",\"build_type\":" + JsonString(BuildType()) + "}";
}

}  // namespace millrace::server
