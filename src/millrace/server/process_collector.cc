#include "millrace/server/process_collector.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "millrace/server/version.h"

namespace millrace::server {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// -1 when /proc cannot be read.
double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double size_pages = 0;
  double resident_pages = 0;
  if (!(file >> size_pages >> resident_pages)) return -1;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Number of entries of a folder without "." and ".."; -1 on failure.
int CountEntries(const char* path) {
  DIR* folder = opendir(path);
  if (folder == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count;
}

}  // namespace

Collector ProcessCollector(WallTime started) {
  return [started](SampleSink& sink) {
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
      sink.Counter("process_cpu_seconds_total", "User and system CPU time.", {},
                   Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
    }
    if (const double bytes = ResidentBytes(); bytes >= 0) {
      sink.Gauge("process_resident_memory_bytes", "Memory in RAM.", {}, bytes);
    }
    // The folder handle of the count itself is among them.
    if (const int fds = CountEntries("/proc/self/fd"); fds > 0) {
      sink.Gauge("process_open_fds", "Open file descriptors.", {}, fds - 1);
    }
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      sink.Gauge("process_max_fds", "Most file descriptors that may be open.", {},
                 static_cast<double>(limit.rlim_cur));
    }
    if (const int threads = CountEntries("/proc/self/task"); threads > 0) {
      sink.Gauge("process_threads", "Threads.", {}, threads);
    }
    sink.Gauge("process_start_time_seconds", "Start of the process, seconds since the Unix epoch.",
               {}, static_cast<double>(started.ns / 1'000'000) / 1e3);
    sink.Gauge("millrace_build_info", "Always 1; the labels say which build this is.",
               {{"version", std::string(Version())},
                {"compiler", std::string(Compiler())},
                {"build_type", std::string(BuildType())}},
               1);
  };
}

}  // namespace millrace::server
