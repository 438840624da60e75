#pragma once

namespace millrace {

// Prints the failed expression with its place to stderr and aborts.
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace millrace

// For programmer errors only, and always on. What input, a peer or stored bytes can cause is a
// Status.
#define MR_CHECK(expression)                                    \
  do {                                                          \
    if (!(expression)) [[unlikely]] {                           \
      ::millrace::CheckFailed(#expression, __FILE__, __LINE__); \
    }                                                           \
  } while (false)
