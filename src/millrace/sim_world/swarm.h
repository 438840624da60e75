#pragma once

#include <cstdint>
#include <string>

#include "millrace/backlog/config.h"
#include "millrace/base/random.h"
#include "millrace/base/time.h"
#include "millrace/sim/fault_plan.h"

namespace millrace::sim {

// What one run is made of. Each run leaves some dangers out and overdoes others (a swarm): faults
// hide each other when all are on at once.
struct Swarm {
  // The machines and what they serve.
  int hosts = 1;
  int loops_per_host = 1;
  int queues = 1;
  Duration step_cost_max = Duration::zero();
  Duration timer_delay_max = Duration::zero();
  backlog::BacklogConfig backlog;
  // Owners use either; different from the backlog's = the setting is changed between lives.
  std::int64_t other_range_size = 0;

  // The load of the safety phase.
  Duration safety_phase = std::chrono::seconds(30);
  int tasks = 30;
  int slots = 2;  // Tasks an owner has in work at once.
  Duration work_max = std::chrono::milliseconds(50);
  Duration act_every_max = std::chrono::milliseconds(400);
  int expiry_percent = 0;  // Tasks that expire, within expiry_max.
  Duration expiry_max = std::chrono::seconds(5);
  int payload_max = 20;

  // Dangers. Weights of one act of the driver against each other; 0 = never.
  FaultRates faults;
  int weight_enqueue = 100;
  int weight_crash = 0;
  int weight_clean_stop = 0;
  int weight_stall = 0;
  int weight_second_owner = 0;
  int weight_clock_jump = 0;
  int weight_power_loss = 0;
  int weight_vanish = 0;
  int weight_pause_work = 0;

  // How long everything may take to drain once the faults are off.
  Duration liveness_limit = std::chrono::seconds(120);

  // One line for people: what is on.
  [[nodiscard]] std::string Describe() const;
};

enum class Profile : std::uint8_t {
  kBacklog,    // The backlog manager driven directly; rows go with the write that finishes them.
  kBacklogGc,  // The same with rows deleted behind the ack level.
  kQueue,  // The queue service, one server at a time over its store, as deployed with the embedded
           // store.
  kQueueOwners,     // The queue service on several hosts over one store: two owners, fencing.
  kMatching,        // Temporal's matching service, with a history service beside it; one host.
  kMatchingOwners,  // The same on several hosts over one store.
};

Swarm DrawSwarm(Random& random, Profile profile);

}  // namespace millrace::sim
