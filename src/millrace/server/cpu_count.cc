#include "millrace/server/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <vector>

namespace millrace::server {
namespace {

constexpr int kAutomaticLoopsMax = 4;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int RoundUp(const std::string& quota_us, const std::string& period_us) {
  std::int64_t quota = 0;
  std::int64_t period = 0;
  std::from_chars(quota_us.data(), quota_us.data() + quota_us.size(), quota);
  std::from_chars(period_us.data(), period_us.data() + period_us.size(), period);
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((quota - 1) / period + 1, 4096));
}

// The folder of this process in the hierarchy whose line in /proc/self/cgroup has `controllers` (""
// for v2).
std::string OwnCgroup(const std::string& controllers) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool found = controllers.empty()
                           ? names == ",,"
                           : names.find("," + controllers + ",") != std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return {};
}

// `path` and all folders above it: a limit of any of them binds.
std::vector<std::string> WithParents(std::string path) {
  std::vector<std::string> out{path};
  while (path.size() > 1) {
    path.resize(std::max<std::size_t>(path.rfind('/'), 1));
    if (path.find('/') == std::string::npos) break;
    out.push_back(path);
  }
  return out;
}

void Lower(int& cores, int quota) {
  if (quota > 0) cores = std::min(cores, quota);
}

}  // namespace

int CoresOfQuotaV2(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  std::string quota;
  std::string period;
  words >> quota >> period;
  return RoundUp(quota, period);
}

int CoresOfQuotaV1(const std::string& quota_us, const std::string& period_us) {
  return RoundUp(quota_us, period_us);
}

int UsableCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 1;
  // Inside a container the own group is mounted at the root; the root is among the parents.
  if (const std::string own = OwnCgroup(""); own.starts_with('/')) {
    for (const std::string& group : WithParents(own))
      Lower(cores, CoresOfQuotaV2(FirstLine("/sys/fs/cgroup" + group + "/cpu.max")));
  }
  if (const std::string own = OwnCgroup("cpu"); own.starts_with('/')) {
    for (const std::string& group : WithParents(own)) {
      const std::string folder = "/sys/fs/cgroup/cpu" + group;
      Lower(cores, CoresOfQuotaV1(FirstLine(folder + "/cpu.cfs_quota_us"),
                                  FirstLine(folder + "/cpu.cfs_period_us")));
    }
  }
  return std::max(cores, 1);
}

int EventLoopCount(int configured, int usable_cores) {
  return configured > 0 ? configured : std::clamp(usable_cores, 1, kAutomaticLoopsMax);
}

}  // namespace millrace::server
