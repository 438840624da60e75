#pragma once

#include <cstdint>
#include <optional>

#include "millrace/base/time.h"

namespace millrace::cli {

// What a process has used up so far, from the kernel's books.
struct ProcessUsage {
  Duration cpu = Duration::zero();    // All threads, user and system.
  std::uint64_t resident_bytes = 0;   // Now.
  std::uint64_t anonymous_bytes = 0;  // Of these, not backed by files.
  std::uint64_t written_bytes = 0;    // Towards storage.
};

// Empty when there is no such process or it is not ours to look at.
std::optional<ProcessUsage> ReadProcessUsage(int pid);

}  // namespace millrace::cli
