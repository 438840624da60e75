#pragma once

namespace millrace::cli {

// What the process ends with. Stable: scripts depend on it.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitUnavailable = 4,
};

}  // namespace millrace::cli
