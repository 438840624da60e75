#pragma once

#include <string>

#include "millrace/base/status.h"

namespace millrace::server {

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;

  // "127.0.0.1:80", "[::1]:80".
  [[nodiscard]] std::string ToString() const;
};

// Reads "host:port" or "[ipv6]:port". kInvalidArgument says what is expected.
Result<HostPort> ParseHostPort(const std::string& text);

}  // namespace millrace::server
