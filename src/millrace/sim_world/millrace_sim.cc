// millrace_sim: runs seeds of the simulator. Exit code 1 and one command line that repeats it on
// the first violation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "millrace/sim_world/run_result.h"

namespace {

using millrace::sim::Coverage;
using millrace::sim::Profile;
using millrace::sim::RunOptions;
using millrace::sim::RunResult;

const std::map<std::string, Profile> kProfiles = {
    {"backlog", Profile::kBacklog},   {"backlog-gc", Profile::kBacklogGc},
    {"queue", Profile::kQueue},       {"queue-owners", Profile::kQueueOwners},
    {"matching", Profile::kMatching}, {"matching-owners", Profile::kMatchingOwners}};

// What to tell when the process dies in a check of the engine itself or hangs; set before each
// seed.
char repeat_line[200];

void OnFatalSignal(int signal) {
  const char* what = signal == SIGALRM
                         ? "VIOLATION: the seed does not end within its time limit\nrepeat: "
                         : "VIOLATION: a check of the engine failed\nrepeat: ";
  (void)!write(STDERR_FILENO, what, std::strlen(what));
  (void)!write(STDERR_FILENO, repeat_line, std::strlen(repeat_line));
  _exit(1);
}

std::string RepeatLine(const std::string& profile, std::uint64_t seed) {
  return "millrace_sim run --profile " + profile + " --first " + std::to_string(seed) +
         " --seeds 1 --trace";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs the engine in simulated worlds: many hosts, one durable store, every fault, from one "
      "seed.");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "Runs seeds; exit code 1 when a rule broke");
  std::uint64_t seeds = 100;
  std::uint64_t first = 1;
  unsigned seconds_max = 60;
  std::vector<std::string> names;
  bool trace = false;
  bool marks = false;
  bool hashes = false;
  run->add_option("--seeds", seeds, "How many seeds to run, per profile")->capture_default_str();
  run->add_option("--first", first, "The first seed")->capture_default_str();
  run->add_option(
         "--profile", names,
         "backlog, backlog-gc, queue, queue-owners, matching, matching-owners; several may be "
         "given (default: all)")
      ->check(CLI::IsMember(kProfiles));
  run->add_option("--seed-seconds-max", seconds_max, "Real time one seed may take")
      ->capture_default_str();
  run->add_flag("--trace", trace, "Print every event");
  run->add_flag("--marks", marks, "Print every coverage mark with its count");
  run->add_flag("--hashes", hashes, "Print the trace hash of each seed");
  CLI11_PARSE(app, argc, argv);
  if (names.empty()) {
    for (const auto& [name, profile] : kProfiles) names.push_back(name);
  }

  std::signal(SIGABRT, OnFatalSignal);
  std::signal(SIGALRM, OnFatalSignal);
  Coverage coverage;
  millrace::sim::DeclareMarks(coverage);
  std::uint64_t ran = 0;
  std::uint64_t steps = 0;
  std::int64_t simulated_ms = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    for (const std::string& name : names) {
      RunOptions options;
      options.seed = seed;
      options.profile = kProfiles.at(name);
      if (trace) options.trace = [](const std::string& line) { std::cout << line << '\n'; };
      const std::string repeat = RepeatLine(name, seed);
      std::snprintf(repeat_line, sizeof(repeat_line), "%s\n", repeat.c_str());
      alarm(seconds_max);
      const RunResult result = millrace::sim::RunSimulation(options, coverage);
      alarm(0);
      ++ran;
      steps += result.steps;
      simulated_ms += result.simulated_ms;
      if (hashes)
        std::printf("%s %llu %016llx\n", name.c_str(), static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(result.hash));
      if (!result.violation.empty()) {
        std::cout.flush();
        std::fprintf(stderr, "VIOLATION: %s\nrepeat: %s\n", result.violation.c_str(),
                     repeat.c_str());
        return 1;
      }
    }
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%llu runs, %llu steps, %.0f steps/s, %.1f h simulated, %.1f s\n",
              static_cast<unsigned long long>(ran), static_cast<unsigned long long>(steps),
              static_cast<double>(steps) / took, static_cast<double>(simulated_ms) / 3'600'000,
              took);
  if (marks) {
    for (const auto& [mark, times] : coverage.marks()) {
      std::printf("%12llu  %s\n", static_cast<unsigned long long>(times), mark.c_str());
    }
  }
  const std::vector<std::string> never = coverage.NeverReached();
  std::printf("%zu of %zu coverage marks reached", coverage.marks().size() - never.size(),
              coverage.marks().size());
  if (never.empty()) {
    std::printf("\n");
  } else {
    std::printf("; never:\n");
    for (const std::string& mark : never) std::printf("  %s\n", mark.c_str());
  }
  return 0;
}
