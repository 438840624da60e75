#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/base/function.h"
#include "millrace/base/mutation.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/strand.h"

namespace millrace::matching {

// Where waiting tasks are taken from: the backlog of one physical queue. Strand only.
class TaskSource {
 public:
  virtual ~TaskSource() = default;
  [[nodiscard]] virtual bool HasLoaded() const = 0;
  virtual std::vector<backlog::LoadedTask> TakeLoaded(std::size_t max) = 0;
};

struct PollResult {
  // Ok with no tasks: the wait is over, nothing came. Otherwise why no task will come.
  Status status;
  std::vector<backlog::LoadedTask> tasks;
};

struct PollRequest {
  std::size_t max_tasks = 1;  // >= 1
  Instant deadline;           // Ends with an empty result then.
  UniqueFunction<void(PollResult)> done;
};

// Whether a task may be handed to a waiting poller without passing through the backlog: not while
// the backlog's head is older than `head_age_max`, so that new work does not overtake old.
[[nodiscard]] inline bool SyncMatchAllowed(Duration backlog_head_age, Duration head_age_max) {
  return backlog_head_age <= head_age_max || MR_MUTANT(sync_match_overtakes_backlog);
}

// Brings waiting pollers and tasks together: first come, first served on both sides.
//
// A poller takes what is loaded, up to its maximum, and does not wait for more. A task stored while
// a poller waits comes straight from the write to the poller; a task that is never stored
// (Temporal's sync match) is offered by TryMatch.
//
// Thread: its strand.
// Bounds: pollers_max waiting pollers; one more is refused with kResourceExhausted.
// Invariants: every poller is answered exactly once, on the strand, never inside AddPoller; a
// cancelled one with kCancelled. A task taken from the source is given to a poller that was still
// waiting.
class Matcher {
 public:
  using PollerId = std::uint64_t;

  Matcher(exec::Strand& strand, TaskSource& source, std::size_t pollers_max);
  // Close must have been called, and the strand must have run what was posted before that.
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  PollerId AddPoller(PollRequest request);
  // Unknown ids are ignored: the poller may have been answered meanwhile.
  void CancelPoller(PollerId poller);

  // The source has tasks now.
  void Pump();
  // Gives `task` to the poller that waits longest; false when none waits.
  bool TryMatch(backlog::LoadedTask& task);

  // Answers every poller with `status`, later ones too.
  void Close(const Status& status);

  [[nodiscard]] std::size_t pollers() const {
    strand_.AssertCurrent();
    return pollers_.size();
  }
  // Tasks handed to pollers that waited for them, and to pollers that found them waiting.
  [[nodiscard]] std::int64_t sync_matches() const { return sync_matches_; }
  [[nodiscard]] std::int64_t backlog_matches() const { return backlog_matches_; }

 private:
  struct Poller {
    std::size_t max_tasks;
    Instant deadline;
    UniqueFunction<void(PollResult)> done;
    bool waited = false;  // Found nothing when it came.
  };
  using Pollers = std::map<PollerId, Poller>;  // Ids grow: first come, first.

  void PumpSoon();
  void Answer(Pollers::iterator it, PollResult result);
  void ArmTimer();
  void EndExpired();

  exec::Strand& strand_;
  TaskSource& source_;
  const std::size_t pollers_max_;
  Pollers pollers_ MR_GUARDED_BY(strand_);
  std::set<std::pair<Instant, PollerId>> deadlines_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_;
  PollerId last_id_ = 0;
  bool pump_posted_ = false;
  Status closed_;  // Not ok once closed.
  std::int64_t sync_matches_ = 0;
  std::int64_t backlog_matches_ = 0;
};

}  // namespace millrace::matching
