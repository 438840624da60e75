#include "millrace/store/memory/memory_node_table.h"

namespace millrace::store {

Result<NodeRows> MemoryNodeTable::Beat(const NodeBeat& beat, bool first) {
  MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  if (first) {
    std::erase_if(rows_, [&](const auto& row) {
      return row.first != beat.id && row.second.beat.address == beat.address;
    });
  }
  const auto found = rows_.find(beat.id);
  const bool same = found != rows_.end() && found->second.beat.incarnation == beat.incarnation;
  if (found == rows_.end() || same || first || found->second.expires <= now) {
    Row& row = rows_[beat.id];
    if (!same) row.started = clock_.WallNow();
    row.beat = beat;
    row.written = now;
    row.expires = now + beat.expiry;
  }
  NodeRows alive{clock_.WallNow(), {}};
  for (const auto& [id, row] : rows_) {
    if (row.expires <= now) continue;
    alive.rows.push_back({.id = id,
                          .incarnation = row.beat.incarnation,
                          .address = row.beat.address,
                          .state = row.beat.state,
                          .applied = row.beat.applied,
                          .queues = row.beat.queues,
                          .started = row.started,
                          .age = now - row.written,
                          .expires_in = row.expires - now});
  }
  return alive;
}

Status MemoryNodeTable::Remove(const std::string& id, std::uint64_t incarnation) {
  MutexLock lock(mutex_);
  const auto found = rows_.find(id);
  if (found != rows_.end() && found->second.beat.incarnation == incarnation) rows_.erase(found);
  return {};
}

}  // namespace millrace::store
