#include "millrace/sim_world/world.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kSwarmSalt = 0x5357'4152'4d00'0000ULL;
constexpr std::uint64_t kStepsMax = 3'000'000;
constexpr int kTakeoversMax = 60;
constexpr int kRangeSizeChangesMax = 3;
// The longest stall of a host, and then some.
constexpr Duration kStallsOver = seconds(12);

SimTrace::Sink TraceSink(const std::function<void(const std::string&)>& out) {
  if (!out) return nullptr;
  return [out](Instant at, std::string_view kind, std::int64_t a, std::int64_t b, std::int64_t c) {
    std::ostringstream line;
    line << FormatSimTime(at) << ' ' << kind << ' ' << a << ' ' << b << ' ' << c;
    out(line.str());
  };
}

}  // namespace

World::World(const RunOptions& options, Coverage& coverage)
    : coverage_(coverage),
      swarm_random_(options.seed ^ kSwarmSalt),
      swarm_(DrawSwarm(swarm_random_, options.profile)),
      scheduler_(options.seed, {.step_cost_max = swarm_.step_cost_max}),
      log_(scheduler_, options.trace),
      ledger_(judge_, coverage_, {.delete_on_finish = swarm_.backlog.delete_on_finish},
              [this] {
                NoteWallClocks();
                return wall_max_;
              }),
      durable_(judge_, ledger_,
               {.range_sizes = {swarm_.backlog.range_size, swarm_.other_range_size}}),
      faults_(scheduler_.random(), swarm_.faults),
      traced_faults_(faults_, scheduler_),
      world_clock_(scheduler_),
      network_(scheduler_, world_clock_),
      driver_(scheduler_, world_clock_) {
  scheduler_.trace().SetSink(TraceSink(options.trace));
  if (options.trace) options.trace("swarm: " + swarm_.Describe());
  const auto hosts = static_cast<std::size_t>(swarm_.hosts);
  hosts_.resize(hosts);
  lives_.resize(hosts);
  for (std::size_t i = 0; i < hosts; ++i) wall_offsets_.push_back(Some(seconds(2)));
}

void World::NoteWallClocks() {
  for (const auto& host : hosts_) {
    if (host != nullptr) wall_max_ = std::max(wall_max_, host->clock.WallNow());
  }
}

Duration World::Some(Duration max) {
  return Duration(
      static_cast<std::int64_t>(random().Below(static_cast<std::uint64_t>(max.count()) + 1)));
}

backlog::BacklogConfig World::DrawBacklogConfig() {
  backlog::BacklogConfig config = swarm_.backlog;
  if (swarm_.other_range_size == config.range_size) return config;
  if (range_size_ == 0) range_size_ = config.range_size;
  if (range_size_changes_ < kRangeSizeChangesMax && Lot(30)) {
    ++range_size_changes_;
    coverage_.Reach("range size changed");
    range_size_ = range_size_ == config.range_size ? swarm_.other_range_size : config.range_size;
  }
  config.range_size = range_size_;
  return config;
}

bool World::RunSteps(UniqueFunction<bool()> until, Duration limit) {
  const Instant end = scheduler_.now() + limit;
  // Wakes the loop at the end even when nothing else happens.
  driver_.PostAt(world_clock_.Now() + limit, [] {});
  int countdown = 0;
  while (!judge_.failed()) {
    // Looking at the condition at every step would cost more than the steps.
    if (countdown-- <= 0) {
      countdown = 16;
      Reap();
      if (until()) return true;
    }
    if (scheduler_.now() >= end) break;
    if (scheduler_.steps() > kStepsMax) {
      judge_.Fail("the simulation does not come to an end (a busy loop?)");
      return false;
    }
    if (!scheduler_.Step()) break;
  }
  if (judge_.failed()) return false;
  Reap();
  return until();
}

RunResult World::Run() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) StartHost(i);
  SafetyPhase();
  if (!judge_.failed() && Lot(33)) {
    coverage_.Reach("clean restart with tasks left");
    (void)RunSteps([this] { return AllHostsUp(); }, kStallsOver);
    (void)RunSteps([] { return false; }, kStallsOver);
    RestartCleanly();
  }
  if (!judge_.failed()) LivenessPhase();
  if (!judge_.failed()) WindDown();
  metrics_.AddTo(coverage_);
  for (int i = 0; i < kFaultKindCount; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    coverage_.Reach("fault " + std::string(FaultKindName(kind)), faults_.drawn(kind));
  }
  return {scheduler_.steps(), scheduler_.trace().hash(), scheduler_.now().ns / 1'000'000 - 1'000,
          judge_.violation()};
}

void World::SafetyPhase() {
  Supervise();
  ActLater();
  (void)RunSteps([] { return false; }, swarm_.safety_phase);
  acting_ = false;
  faults_.SetRates({.latency_max = milliseconds(5)});
}

void World::ActLater() {
  driver_.PostAt(world_clock_.Now() + Some(swarm_.act_every_max), [this] {
    if (!acting_) return;
    Act();
    ActLater();
  });
}

void World::Act() {
  const std::array<int, 8> weights = {swarm_.weight_enqueue,      swarm_.weight_crash,
                                      swarm_.weight_clean_stop,   swarm_.weight_stall,
                                      swarm_.weight_second_owner, swarm_.weight_clock_jump,
                                      swarm_.weight_power_loss,   swarm_.weight_pause_work};
  int sum = 0;
  for (const int weight : weights) sum += weight;
  auto lot = static_cast<int>(random().Below(static_cast<std::uint64_t>(sum)));
  std::size_t act = 0;
  while (lot >= weights[act]) lot -= weights[act++];
  const std::size_t host = random().Below(hosts_.size());
  scheduler_.Trace("act", static_cast<std::int64_t>(act), static_cast<std::int64_t>(host));
  switch (act) {
    case 0:
      if (tasks_made_ < swarm_.tasks) Enqueue();
      break;
    case 1:
      CrashHost(host);
      break;
    case 2:
      StopSomething();
      break;
    case 3:
      StallHost(host);
      break;
    case 4:
      // Each take-over leaves a gap of unused ids that the next owner reads over: hundreds make a
      // run crawl.
      if (hosts_[host] != nullptr && takeovers_++ < kTakeoversMax) AddSecondOwner(host);
      break;
    case 5:
      JumpClock(host);
      break;
    case 6:
      LosePower();
      break;
    default:
      PauseSomething();
      break;
  }
  if (Lot(75)) Supervise();
}

void World::CrashHost(std::size_t host) {
  if (hosts_[host] == nullptr) return;
  coverage_.Reach("act crash");
  NoteWallClocks();
  OnHostCrashing(host);
  const std::shared_ptr<SimHost> down = hosts_[host];
  down->crashed = true;
  if (down->store.calls_in_flight() > 0) coverage_.Reach("crash with store calls in flight");
  down->store.Crash(random());
  OnHostCrashed(host);
  hosts_[host] = nullptr;
  old_hosts_.push_back(down);
  driver_.PostAt(world_clock_.Now() + Some(seconds(2)), [this, host] {
    if (hosts_[host] == nullptr) StartHost(host);
  });
}

void World::StallHost(std::size_t host) {
  if (hosts_[host] == nullptr) return;
  coverage_.Reach("act stall host");
  const Instant until = scheduler_.now() + Some(seconds(Lot(50) ? 1 : 10));
  for (const auto& loop : hosts_[host]->loops) loop->StallUntil(until);
}

void World::JumpClock(std::size_t host) {
  if (hosts_[host] == nullptr) return;
  const Duration jump = Some(std::chrono::hours(Lot(50) ? 1 : 0) + seconds(5));
  const bool forward = Lot(50);
  coverage_.Reach(forward ? "act clock jump forward" : "act clock jump back");
  NoteWallClocks();
  hosts_[host]->clock.JumpWall(forward ? jump : -jump);
  wall_offsets_[host] += forward ? jump : -jump;
}

void World::LosePower() {
  coverage_.Reach("act power loss");
  for (std::size_t i = 0; i < hosts_.size(); ++i) CrashHost(i);
  ++*store_incarnation_;
  durable_.LosePower();
}

void World::StartHost(std::size_t host) {
  hosts_[host] = std::make_shared<SimHost>(
      scheduler_, network_, durable_, traced_faults_, static_cast<int>(host), ++lives_[host],
      swarm_.loops_per_host, swarm_.timer_delay_max, wall_offsets_[host]);
  hosts_[host]->store.set_incarnation(store_incarnation_);
  OnHostStarted(host);
}

bool World::AllHostsUp() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const auto& host) { return host != nullptr; });
}

std::vector<std::size_t> World::HostsUp() const {
  std::vector<std::size_t> up;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i] != nullptr) up.push_back(i);
  }
  return up;
}

bool World::Drained() const {
  for (const auto& [queue, image] : durable_.images()) {
    for (const auto& [key, row] : image.rows) {
      // Without delete_on_finish rows behind the ack level wait for their deletion; those above it
      // will be handed out, again if an earlier owner finished them.
      const auto subqueue = static_cast<std::size_t>(key.subqueue);
      if (swarm_.backlog.delete_on_finish || subqueue >= image.metadata.subqueues.size() ||
          key.level > image.metadata.subqueues[subqueue].ack_level) {
        return false;
      }
    }
  }
  return ledger_.Unfinished(1).empty();
}

void World::LivenessPhase() {
  const Duration limit = swarm_.liveness_limit + 2 * swarm_.backlog.update_interval;
  // What clients have under way, and writes that come late, end first: before that nothing may be
  // there to drain.
  const Instant settled = scheduler_.now() + kStallsOver;
  const Instant end = scheduler_.now() + limit;
  while (!judge_.failed() && scheduler_.now() < end && (!Drained() || scheduler_.now() < settled)) {
    CalmDown();
    Supervise();
    (void)RunSteps([this, settled] { return Drained() && scheduler_.now() >= settled; },
                   seconds(1));
  }
  if (judge_.failed() || Drained()) return;
  std::string left;
  for (const std::int64_t task : ledger_.Unfinished(5)) left += " " + std::to_string(task);
  judge_.Fail("not drained after " + std::to_string(limit.count() / 1'000'000'000) +
              " s without faults; tasks left:" + left);
}

void World::WindDown() {
  // What was done is in the counts by then, whoever owns a queue.
  Supervise();
  (void)RunSteps([] { return false; }, 2 * swarm_.backlog.update_interval + seconds(5));
  if (judge_.failed()) return;
  judge_.Expect(Drained(), [] { return "tasks came back after everything was drained"; });
  CheckDrained();
  BeginStop();
  const bool stopped = RunSteps([this] { return Stopped() && old_hosts_.empty(); }, seconds(60));
  if (judge_.failed()) return;
  judge_.Expect(stopped, [this] {
    return "not everything stopped within 60 s; dead hosts left: " +
           std::to_string(old_hosts_.size());
  });
  for (const auto& host : hosts_) {
    judge_.Expect(host == nullptr || host->store.calls_in_flight() == 0,
                  [] { return "store calls left in flight"; });
  }
  judge_.Expect(
      scheduler_.RunUntilQuiet(std::chrono::minutes(5)) && scheduler_.pending() == 0,
      [this] { return std::to_string(scheduler_.pending()) + " closures or timers left over"; });
  durable_.CheckAgainstStore();
}

}  // namespace millrace::sim
