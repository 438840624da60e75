#include "millrace/queue/lease_table.h"

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::queue {

Lease& LeaseTable::Add(Lease lease) {
  const TaskId task = lease.task.level.id;
  const auto [it, added] = leases_.emplace(task.value, std::move(lease));
  MR_CHECK(added);
  if (it->second.state == LeaseState::kActive) deadlines_.emplace(it->second.deadline, task);
  return it->second;
}

void LeaseTable::Remove(TaskId task) {
  const auto it = leases_.find(task.value);
  MR_CHECK(it != leases_.end());
  deadlines_.erase({it->second.deadline, task});
  leases_.erase(it);
}

Lease* LeaseTable::Find(TaskId task) {
  const auto it = leases_.find(task.value);
  return it == leases_.end() ? nullptr : &it->second;
}

const Lease* LeaseTable::Find(TaskId task) const {
  const auto it = leases_.find(task.value);
  return it == leases_.end() ? nullptr : &it->second;
}

Lease* LeaseTable::FindToken(const LeaseToken& token) {
  Lease* lease = Find(token.task);
  return lease != nullptr && (MR_MUTANT(token_counter_ignored) ||
                              (lease->epoch == token.epoch && lease->counter == token.counter))
             ? lease
             : nullptr;
}

void LeaseTable::SetDeadline(Lease& lease, Instant deadline, Duration duration) {
  const TaskId task = lease.task.level.id;
  deadlines_.erase({lease.deadline, task});
  lease.deadline = deadline;
  lease.duration = duration;
  if (lease.state == LeaseState::kActive) deadlines_.emplace(deadline, task);
}

void LeaseTable::SetState(Lease& lease, LeaseState state) {
  const TaskId task = lease.task.level.id;
  lease.state = state;
  if (state == LeaseState::kActive) {
    deadlines_.emplace(lease.deadline, task);
  } else {
    deadlines_.erase({lease.deadline, task});
  }
}

Instant LeaseTable::NextDeadline() const {
  return deadlines_.empty() ? Instant::Max() : deadlines_.begin()->first;
}

Lease* LeaseTable::FirstExpired(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return nullptr;
  return Find(deadlines_.begin()->second);
}

}  // namespace millrace::queue
