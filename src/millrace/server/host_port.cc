#include "millrace/server/host_port.h"

#include <charconv>

namespace millrace::server {

std::string HostPort::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<HostPort> ParseHostPort(const std::string& text) {
  const Status bad(StatusCode::kInvalidArgument,
                   "\"" + text + "\" is not an address: expected host:port or [ipv6]:port");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  HostPort out;
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return bad;
  }
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, out.port);
  if (out.host.empty() || error != std::errc() || stop != end || out.port < 0 ||
      out.port > 65'535) {
    return bad;
  }
  return out;
}

}  // namespace millrace::server
