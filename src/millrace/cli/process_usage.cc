#include "millrace/cli/process_usage.h"

#include <time.h>

#include <fstream>
#include <sstream>
#include <string>

namespace millrace::cli {
namespace {

// The number after "name:" in a /proc file of such lines; 0 when it is not there.
std::uint64_t NumberAfter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    std::uint64_t number = 0;
    rest >> number;
    return number;
  }
  return 0;
}

}  // namespace

std::optional<ProcessUsage> ReadProcessUsage(int pid) {
  clockid_t clock = 0;
  timespec cpu{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &cpu) != 0) return std::nullopt;
  const std::string folder = "/proc/" + std::to_string(pid) + "/";
  ProcessUsage usage;
  usage.cpu = std::chrono::seconds(cpu.tv_sec) + std::chrono::nanoseconds(cpu.tv_nsec);
  usage.resident_bytes = NumberAfter(folder + "status", "VmRSS") * 1024;
  usage.anonymous_bytes = NumberAfter(folder + "status", "RssAnon") * 1024;
  usage.written_bytes = NumberAfter(folder + "io", "write_bytes");
  return usage;
}

}  // namespace millrace::cli
