#include "millrace/sim_world/task_ledger.h"

#include <charconv>
#include <set>
#include <utility>

#include "millrace/backlog/owner_state.h"
#include "millrace/base/check.h"

namespace millrace::sim {
namespace {

std::string Task(std::int64_t number) { return "task " + std::to_string(number); }

}  // namespace

std::string TaskMarker(std::int64_t number) { return "#" + std::to_string(number) + ";"; }

std::optional<std::int64_t> FindTaskMarker(std::string_view bytes) {
  for (std::size_t at = bytes.find('#'); at != std::string_view::npos;
       at = bytes.find('#', at + 1)) {
    std::int64_t number = 0;
    const char* end = bytes.data() + bytes.size();
    const auto [stop, error] = std::from_chars(bytes.data() + at + 1, end, number);
    if (error == std::errc() && stop != end && *stop == ';' && number > 0) return number;
  }
  return std::nullopt;
}

TaskLedger::TaskLedger(Judge& judge, Coverage& coverage, LedgerRules rules,
                       std::function<WallTime()> wall_max)
    : judge_(judge), coverage_(coverage), rules_(rules), wall_max_(std::move(wall_max)) {}

std::int64_t TaskLedger::NewTask(WallTime expiry) {
  entries_.emplace_back().expiry = expiry;
  return static_cast<std::int64_t>(entries_.size());
}

TaskLedger::Entry& TaskLedger::At(std::int64_t task) {
  MR_CHECK(task > 0 && task <= static_cast<std::int64_t>(entries_.size()));
  return entries_[static_cast<std::size_t>(task - 1)];
}

const TaskLedger::Entry* TaskLedger::Find(std::int64_t task) const {
  if (task <= 0 || task > static_cast<std::int64_t>(entries_.size())) return nullptr;
  return &entries_[static_cast<std::size_t>(task - 1)];
}

bool TaskLedger::Expired(const Entry& entry) const {
  return entry.expiry.is_set() && entry.expiry <= wall_max_();
}

void TaskLedger::Accepted(std::int64_t task) {
  Entry& entry = At(task);
  entry.accept = Told::kYes;
  judge_.Expect(entry.stored_ever,
                [&] { return Task(task) + " was acknowledged but is not in the store"; });
}

void TaskLedger::Refused(std::int64_t task) {
  Entry& entry = At(task);
  entry.accept = Told::kNo;
  judge_.Expect(!entry.stored_ever,
                [&] { return Task(task) + " was refused but is in the store"; });
}

void TaskLedger::AcceptDecided(std::int64_t task, bool applied) {
  coverage_.Reach(applied ? "unknown enqueue found applied" : "unknown enqueue found not applied");
  if (applied) {
    Accepted(task);
  } else {
    Refused(task);
  }
}

void TaskLedger::FinishAsked(std::int64_t task) { ++At(task).finish_asked; }

void TaskLedger::Finished(std::int64_t task) {
  Entry& entry = At(task);
  ++entry.finished;
  if (!rules_.delete_on_finish) return;
  judge_.Expect(entry.finished == 1, [&] { return Task(task) + " was finished twice"; });
  judge_.Expect(entry.gone,
                [&] { return Task(task) + " was reported finished but is still in the store"; });
}

void TaskLedger::FinishDecided(std::int64_t task, bool applied) {
  coverage_.Reach(applied ? "unknown finish found applied" : "unknown finish found not applied");
  if (applied) Finished(task);
}

void TaskLedger::Delivered(std::int64_t task) {
  const Entry& entry = At(task);
  judge_.Expect(entry.stored_ever, [&] { return Task(task) + " was delivered but never stored"; });
  if (!rules_.delete_on_finish) return;
  judge_.Expect(!entry.gone,
                [&] { return Task(task) + " was delivered after it had been finished"; });
}

void TaskLedger::OnApplied(const AppliedChange& change) {
  // Rows first, so that a rewrite is not taken for an end.
  for (const store::TaskRow* row : change.created) Stored(*row);
  for (const store::TaskRow& row : change.removed) Removed(row);
  if (!change.metadata_written) return;
  CheckConservation(change);
  for (const auto& [key, row] : change.after.rows) {
    const auto subqueue = static_cast<std::size_t>(key.subqueue);
    if (subqueue >= change.after.metadata.subqueues.size()) continue;
    if (key.level > change.after.metadata.subqueues[subqueue].ack_level) continue;
    const auto task = FindTaskMarker(row.payload);
    judge_.Expect(task.has_value() && MayBeGone(*task), [&] {
      return "the stored ack level passed " + (task ? Task(*task) : "a row") +
             ", which is not finished";
    });
  }
}

void TaskLedger::CheckConservation(const AppliedChange& change) {
  if (!rules_.delete_on_finish || change.after.metadata.owner_state.empty()) return;
  const auto state = backlog::DecodeOwnerState(change.after.metadata.owner_state);
  if (!state.ok()) {
    judge_.Fail("the stored totals do not parse: " + state.status().ToString());
    return;
  }
  const auto at = [&](backlog::Total total) { return backlog::At(state->totals, total); };
  const auto rows = static_cast<std::int64_t>(change.after.rows.size());
  const std::int64_t ended = at(backlog::Total::kDone) + at(backlog::Total::kDead) +
                             at(backlog::Total::kDroppedExpired) +
                             at(backlog::Total::kDroppedInvalid);
  judge_.Expect(at(backlog::Total::kAccepted) == ended + rows, [&] {
    return "stored totals of " + change.queue.persistence_name + ": accepted " +
           std::to_string(at(backlog::Total::kAccepted)) + " is not ended " +
           std::to_string(ended) + " + rows " + std::to_string(rows);
  });
}

void TaskLedger::Stored(const store::TaskRow& row) {
  const auto task = FindTaskMarker(row.payload);
  if (!task || Find(*task) == nullptr) {
    judge_.Fail("a row was written that no client asked for");
    return;
  }
  Entry& entry = At(*task);
  judge_.Expect(entry.stored_ever || entry.expiry.is_set() == row.expiry_time.is_set(),
                [&] { return Task(*task) + " was stored with a wrong expiry"; });
  // The server's clock may have jumped since the client asked; and a task that was leased may not
  // expire any more.
  entry.expiry = row.expiry_time;
  ++entry.rows;
  entry.stored_ever = true;
  judge_.Expect(entry.accept != Told::kNo,
                [&] { return Task(*task) + " was refused, then stored"; });
  if (!rules_.delete_on_finish) {
    entry.gone = false;
    return;
  }
  judge_.Expect(!entry.gone,
                [&] { return Task(*task) + " came back into the store after it was finished"; });
}

void TaskLedger::Removed(const store::TaskRow& row) {
  const auto task = FindTaskMarker(row.payload);
  if (!task || Find(*task) == nullptr) return;
  Entry& entry = At(*task);
  --entry.rows;
  judge_.Expect(entry.rows <= 1 || !rules_.delete_on_finish,
                [&] { return Task(*task) + " has more than one row in the store"; });
  if (entry.rows > 0) return;
  entry.gone = true;
  if (entry.finish_asked > 0) return;
  judge_.Expect(Expired(entry), [&] {
    return Task(*task) + " was deleted though nobody finished it" +
           (entry.expiry.is_set() ? ", " + std::to_string((entry.expiry - wall_max_()).count()) +
                                        " ns before it expires"
                                  : std::string());
  });
  entry.dropped = true;
  coverage_.Reach("task dropped by expiry");
}

void TaskLedger::OnPowerLoss(const std::map<store::PhysicalQueueKey, QueueImage>& images) {
  std::vector<int> rows(entries_.size(), 0);
  for (const auto& [queue, image] : images) {
    for (const auto& [key, row] : image.rows) {
      const auto task = FindTaskMarker(row.payload);
      if (task && Find(*task) != nullptr) ++rows[static_cast<std::size_t>(*task - 1)];
    }
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (rows[i] < entry.rows) {
      // A creation was undone.
      judge_.Expect(entry.accept != Told::kYes || rows[i] > 0,
                    [&] { return Task(number) + " was acknowledged and lost by a power failure"; });
      if (rows[i] == 0) entry.stored_ever = false;
    }
    if (rows[i] > 0 && entry.gone) {
      judge_.Expect(!rules_.delete_on_finish || entry.finished == 0, [&] {
        return Task(number) + " was finished and came back by a power failure";
      });
      entry.gone = false;
    }
    entry.rows = rows[i];
  }
}

bool TaskLedger::MayBeGone(std::int64_t task) const {
  const Entry* entry = Find(task);
  if (entry == nullptr) return false;
  if (Expired(*entry)) return true;
  // With two rows, one has been rewritten as the other.
  return !rules_.delete_on_finish && (entry->finish_asked > 0 || entry->rows > 1);
}

bool TaskLedger::IsStored(std::int64_t task) const {
  const Entry* entry = Find(task);
  return entry != nullptr && entry->rows > 0;
}

bool TaskLedger::WasStored(std::int64_t task) const {
  const Entry* entry = Find(task);
  return entry != nullptr && entry->stored_ever;
}

bool TaskLedger::WasFinished(std::int64_t task) const {
  const Entry* entry = Find(task);
  return entry != nullptr && (entry->finished > 0 || entry->gone);
}

TaskLedger::Counts TaskLedger::counts() const {
  Counts counts;
  for (const Entry& entry : entries_) {
    ++counts.asked;
    counts.accepted += entry.accept == Told::kYes ? 1 : 0;
    counts.stored_ever += entry.stored_ever ? 1 : 0;
    counts.stored_now += entry.rows > 0 ? 1 : 0;
    counts.finished += entry.finished > 0 ? 1 : 0;
    counts.gone += entry.gone ? 1 : 0;
  }
  return counts;
}

std::vector<std::int64_t> TaskLedger::Unfinished(std::size_t limit) const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < entries_.size() && result.size() < limit; ++i) {
    const Entry& entry = entries_[i];
    const bool finished = rules_.delete_on_finish ? entry.gone : entry.finished > 0 || entry.gone;
    if (entry.stored_ever && !finished) result.push_back(static_cast<std::int64_t>(i) + 1);
  }
  return result;
}

}  // namespace millrace::sim
