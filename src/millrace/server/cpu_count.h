#pragma once

#include <string>

namespace millrace::server {

// Cores this process may really use: the scheduler's mask, cut by the cgroup's CPU quota (v2 or
// v1), rounded up; >= 1.
int UsableCores();

// The cores a quota allows, rounded up; 0 = no quota, or text that is not one. v2: the two words of
// cpu.max.
int CoresOfQuotaV2(const std::string& cpu_max);
int CoresOfQuotaV1(const std::string& quota_us, const std::string& period_us);

// event_loops as configured; 0 becomes one per usable core, at most 4.
int EventLoopCount(int configured, int usable_cores);

}  // namespace millrace::server
