#include "millrace/sim_world/swarm.h"

#include <array>
#include <initializer_list>
#include <sstream>

namespace millrace::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename T>
T Pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(values.size())];
}

// Half of the time none, otherwise one of the values.
int Maybe(Random& random, std::initializer_list<int> values) {
  return random.Chance(1, 2) ? 0 : Pick(random, values);
}

std::int64_t Millis(Duration d) { return d.count() / 1'000'000; }

}  // namespace

Swarm DrawSwarm(Random& random, Profile profile) {
  Swarm swarm;
  const bool shared = profile != Profile::kQueue && profile != Profile::kMatching;
  swarm.hosts = shared ? Pick(random, {1, 1, 2, 3}) : 1;
  swarm.loops_per_host = Pick(random, {1, 1, 2});
  swarm.queues = Pick(random, {1, 1, 2});
  swarm.step_cost_max =
      Pick<Duration>(random, {microseconds(1), microseconds(20), microseconds(200)});
  swarm.timer_delay_max =
      Pick<Duration>(random, {Duration::zero(), milliseconds(1), milliseconds(30)});

  backlog::BacklogConfig& config = swarm.backlog;
  config.delete_on_finish = profile != Profile::kBacklogGc;
  config.range_size = Pick<std::int64_t>(random, {1, 3, 5, 20, 100});
  // A gap of ids is walked in steps of the range size: sizes that are far apart take too long.
  // Servers with different sizes that take a queue from each other all the time would multiply its
  // range id each time.
  const bool owners = profile == Profile::kQueueOwners || profile == Profile::kMatchingOwners;
  const bool may_change = !owners || swarm.hosts == 1;
  swarm.other_range_size =
      may_change && random.Chance(1, 4) ? config.range_size * 2 : config.range_size;
  config.outstanding_appends_max = Pick<std::size_t>(random, {1, 2, 5, 250});
  config.write_batch_max = Pick<std::size_t>(random, {1, 2, 3, 100});
  config.write_batch_bytes_max = Pick<std::size_t>(random, {1, 40, 4u << 20});
  config.page_size = Pick<std::size_t>(random, {1, 2, 3, 10, 1'000});
  config.page_bytes_max = Pick<std::size_t>(random, {1, 60, 8u << 20});
  config.empty_ranges_per_turn_max = Pick(random, {1, 2, 10});
  config.gc_batch = Pick<std::size_t>(random, {1, 2, 5, 100});
  config.gc_interval = Pick<Duration>(random, {milliseconds(10), seconds(1)});
  config.update_interval = Pick<Duration>(random, {milliseconds(500), seconds(5), seconds(60)});
  config.final_io_timeout = seconds(5);
  config.throttled_read_wait = Pick<Duration>(random, {milliseconds(100), seconds(3)});
  config.store_retry_max = Pick<Duration>(random, {milliseconds(100), seconds(5)});
  config.rewrite_retry_total = Pick<Duration>(random, {milliseconds(200), seconds(30)});

  swarm.safety_phase = Pick<Duration>(random, {seconds(5), seconds(20), seconds(60)});
  swarm.tasks = Pick(random, {5, 20, 60});
  swarm.slots = Pick(random, {1, 2, 5});
  swarm.work_max = Pick<Duration>(random, {microseconds(10), milliseconds(50), seconds(2)});
  swarm.act_every_max =
      Pick<Duration>(random, {milliseconds(5), milliseconds(100), milliseconds(1'000)});
  swarm.expiry_percent = Maybe(random, {20, 90});
  swarm.expiry_max = Pick<Duration>(random, {milliseconds(200), seconds(5)});

  FaultRates& faults = swarm.faults;
  faults.unavailable = Maybe(random, {10, 100, 400});
  faults.resource_exhausted = Maybe(random, {10, 100});
  faults.reply_lost = Maybe(random, {10, 100, 300});
  faults.not_applied = Maybe(random, {10, 100});
  faults.applied_late = Maybe(random, {10, 100, 300});
  faults.stall = Maybe(random, {5, 50});
  faults.damaged_read = random.Chance(1, 4) ? Pick(random, {2, 20}) : 0;
  faults.latency_max =
      Pick<Duration>(random, {microseconds(1), milliseconds(5), milliseconds(200)});
  faults.stall_max = Pick<Duration>(random, {milliseconds(100), seconds(8)});
  faults.late_max = Pick<Duration>(random, {milliseconds(1), milliseconds(100), seconds(8)});

  swarm.weight_crash = Maybe(random, {1, 10});
  swarm.weight_clean_stop = Maybe(random, {1, 10});
  swarm.weight_stall = Maybe(random, {2, 10});
  swarm.weight_second_owner = shared ? Maybe(random, {2, 20}) : 0;
  swarm.weight_clock_jump = Maybe(random, {1, 5});
  swarm.weight_power_loss = Maybe(random, {1, 5});
  swarm.weight_vanish = Maybe(random, {10, 50});
  swarm.weight_pause_work = Maybe(random, {2, 10});
  return swarm;
}

std::string Swarm::Describe() const {
  std::ostringstream out;
  out << "hosts=" << hosts << " loops=" << loops_per_host << " queues=" << queues
      << " tasks=" << tasks << " slots=" << slots << " work<=" << Millis(work_max)
      << "ms safety=" << Millis(safety_phase) << "ms range=" << backlog.range_size << "/"
      << other_range_size << " appends=" << backlog.outstanding_appends_max
      << " batch=" << backlog.write_batch_max << "/" << backlog.write_batch_bytes_max
      << "B page=" << backlog.page_size << "/" << backlog.page_bytes_max
      << "B gc=" << backlog.gc_batch << " update=" << Millis(backlog.update_interval)
      << "ms expiry=" << expiry_percent << "%<=" << Millis(expiry_max)
      << "ms faults/1000: unavailable=" << faults.unavailable
      << " exhausted=" << faults.resource_exhausted << " reply_lost=" << faults.reply_lost
      << " not_applied=" << faults.not_applied << " late=" << faults.applied_late
      << "<=" << Millis(faults.late_max) << "ms stall=" << faults.stall
      << "<=" << Millis(faults.stall_max) << "ms damaged=" << faults.damaged_read
      << " latency<=" << Millis(faults.latency_max) << "ms acts: crash=" << weight_crash
      << " stop=" << weight_clean_stop << " stall=" << weight_stall
      << " second_owner=" << weight_second_owner << " clock=" << weight_clock_jump
      << " power=" << weight_power_loss << " vanish=" << weight_vanish
      << " pause=" << weight_pause_work;
  return out.str();
}

}  // namespace millrace::sim
