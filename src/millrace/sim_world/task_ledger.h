#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sim_world/audited_store.h"
#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/judge.h"

namespace millrace::sim {

// A task's payload in simulations holds "#<number>;" somewhere, so that a checker can tell which
// task a row is whatever the layers in between wrap around it.
std::string TaskMarker(std::int64_t number);
std::optional<std::int64_t> FindTaskMarker(std::string_view bytes);

struct LedgerRules {
  // A finished task's row goes with the write that finishes it. False: finished tasks may be seen
  // again by the next owner, and a rewritten task has two rows for a while.
  bool delete_on_finish = true;
};

// The books of a simulation: what clients asked for and were told about each task, against what the
// store really holds.
//
// Rules checked here, at the moment they break:
//   what was acknowledged is in the store then, what was refused never is;
//   a row goes away for good only by a finish somebody asked for, or by expiry;
//   a finished task never comes back, and of all calls that finish it one succeeds;
//   in the end every stored task is finished (Drained).
//
// Thread: one at a time.
class TaskLedger final : public StoreWatcher {
 public:
  // `wall_max`: the latest calendar time any host has seen, which expiry may go by.
  TaskLedger(Judge& judge, Coverage& coverage, LedgerRules rules,
             std::function<WallTime()> wall_max);

  // A client is about to hand a task over; returns its number. expiry not set = never.
  std::int64_t NewTask(WallTime expiry);

  // What the client was told. None of them = it never heard.
  void Accepted(std::int64_t task);
  void Refused(std::int64_t task);
  void AcceptDecided(std::int64_t task, bool applied);

  // Somebody asks for the task to be finished (done or dead). From here its row may go.
  void FinishAsked(std::int64_t task);
  // The call that asked was told that it finished the task.
  void Finished(std::int64_t task);
  // After an unknown outcome: it was found out.
  void FinishDecided(std::int64_t task, bool applied);

  // An owner that holds the lease in the store hands the task to somebody.
  void Delivered(std::int64_t task);

  void OnApplied(const AppliedChange& change) override;
  void OnPowerLoss(const std::map<store::PhysicalQueueKey, QueueImage>& images) override;

  [[nodiscard]] bool MayBeGone(std::int64_t task) const;
  [[nodiscard]] bool IsStored(std::int64_t task) const;
  [[nodiscard]] bool WasStored(std::int64_t task) const;
  [[nodiscard]] bool WasFinished(std::int64_t task) const;

  struct Counts {
    std::int64_t asked = 0;
    std::int64_t accepted = 0;  // Told so.
    std::int64_t stored_ever = 0;
    std::int64_t stored_now = 0;
    std::int64_t finished = 0;  // Told so.
    std::int64_t gone = 0;
  };
  [[nodiscard]] Counts counts() const;
  // Numbers of tasks that are still stored and not finished, at most `limit`.
  [[nodiscard]] std::vector<std::int64_t> Unfinished(std::size_t limit) const;

 private:
  enum class Told : std::uint8_t { kNothing, kYes, kNo };
  struct Entry {
    WallTime expiry;
    Told accept = Told::kNothing;
    int finish_asked = 0;
    int finished = 0;
    int rows = 0;
    bool stored_ever = false;
    bool gone = false;
    bool dropped = false;  // Gone by expiry.
  };

  Entry& At(std::int64_t task);
  [[nodiscard]] const Entry* Find(std::int64_t task) const;
  [[nodiscard]] bool Expired(const Entry& entry) const;
  // accepted = done + dead + dropped + rows stored, in every stored state.
  void CheckConservation(const AppliedChange& change);
  void Stored(const store::TaskRow& row);
  void Removed(const store::TaskRow& row);

  Judge& judge_;
  Coverage& coverage_;
  const LedgerRules rules_;
  const std::function<WallTime()> wall_max_;
  std::vector<Entry> entries_;  // Index: number - 1.
};

}  // namespace millrace::sim
