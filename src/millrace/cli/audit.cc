#include "millrace/cli/audit.h"

namespace millrace::cli {

void Conservation::Add(const Conservation& other) {
  accepted += other.accepted;
  done += other.done;
  waiting += other.waiting;
  leased += other.leased;
  dead += other.dead;
  dropped += other.dropped;
}

Conservation ConservationOf(const v1::QueueInfo& queue) {
  const v1::QueueCounts& counts = queue.counts();
  return {queue.name(),    counts.accepted(), counts.done(),   counts.waiting(),
          counts.leased(), counts.dead(),     counts.dropped()};
}

}  // namespace millrace::cli
