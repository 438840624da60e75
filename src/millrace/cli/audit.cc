#include "millrace/cli/audit.h"

#include <algorithm>

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
  if (!queue.has_row_counts()) {
    return {queue.name(),    counts.accepted(), counts.done(),   counts.waiting(),
            counts.leased(), counts.dead(),     counts.dropped()};
  }
  const v1::RowCounts& rows = queue.row_counts();
  const std::int64_t leased = std::min(counts.leased(), rows.task_rows());
  return {.name = queue.name(),
          .accepted = rows.accepted(),
          .done = rows.done(),
          .waiting = rows.task_rows() - leased,
          .leased = leased,
          // The two were counted at another moment than the rest; what sets them apart is an error.
          .dead = rows.dead() + rows.dead_rows() - rows.dead_total(),
          .dropped = rows.dropped()};
}

}  // namespace millrace::cli
