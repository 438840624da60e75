#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/base/ids.h"
#include "millrace/base/time.h"
#include "millrace/queue/lease_token.h"
#include "millrace/store/types.h"

namespace millrace::queue {

// active -> ending -> (gone | active | deciding -> (gone | active))
// active -> expiring -> (gone | expiring)
enum class LeaseState : std::uint8_t {
  kActive,
  kEnding,    // A call that ends it waits for its write.
  kDeciding,  // That write's outcome is unknown; no call may touch the lease until it is known.
  kExpiring,  // Its time is up: lost for its holder; the task is being written again.
};

struct Lease {
  store::TaskKey task;
  RangeId epoch;  // With counter: the token.
  std::uint64_t counter = 0;
  Instant deadline;
  Duration duration{};  // As granted or extended last.
  LeaseState state = LeaseState::kActive;
  bool journal_pending = false;  // The journal still has to write its newest form.
  std::uint64_t chunk = 0;       // Journal row with its newest form; 0 = none.
  std::string worker_id;
};

// The leases of one queue: at most one per task. Pure.
//
// Bounds: whoever adds bounds it. Addresses of leases are stable until removed.
class LeaseTable {
 public:
  // The task must not have a lease.
  Lease& Add(Lease lease);
  void Remove(TaskId task);

  [[nodiscard]] Lease* Find(TaskId task);
  [[nodiscard]] const Lease* Find(TaskId task) const;
  // The lease that exactly this token names, whatever its state.
  [[nodiscard]] Lease* FindToken(const LeaseToken& token);

  // A lease's time only counts while it is active; the others are watched again after SetState.
  void SetDeadline(Lease& lease, Instant deadline, Duration duration);
  void SetState(Lease& lease, LeaseState state);

  // The earliest deadline of an active lease; Instant::Max() when there is none.
  [[nodiscard]] Instant NextDeadline() const;
  // The active lease that ran out first, if its time is up at `now`.
  [[nodiscard]] Lease* FirstExpired(Instant now);

  [[nodiscard]] std::size_t size() const { return leases_.size(); }
  [[nodiscard]] bool empty() const { return leases_.empty(); }

 private:
  std::unordered_map<std::int64_t, Lease> leases_;
  std::set<std::pair<Instant, TaskId>> deadlines_;  // Active leases only.
};

}  // namespace millrace::queue
