#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/base/time.h"

namespace millrace::cli {

// How the command of one task ended.
struct TaskExit {
  enum class Kind { kDone, kFailed, kFailedForGood };
  Kind kind = Kind::kDone;
  std::string error_message;  // For the two failures.
};

// What the server said about one item of a settling or extending call.
enum class ItemAnswer {
  kOk,
  kLeaseLost,
  kRefused,    // Not done for another reason that a retry does not mend.
  kNotDone,    // Surely not done; worth a retry.
  kUncertain,  // The call failed; it may have been done. Worth a retry.
};

// How the hold on one task ended; what each means stands at the summary's fields.
enum class TaskEnd { kCompleted, kFailed, kReleased, kLeaseLost, kUnconfirmed, kUnreported };
// "completed", "lease_lost" and so on: the names of the summary's fields.
std::string_view TaskEndName(TaskEnd end);

struct WorkSummary {
  std::int64_t leased = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t released = 0;
  // The lease ended while the command ran, or before its end could be reported.
  std::int64_t lease_lost = 0;
  // A report was sent, its answer got lost, and the retry found no lease: most likely reported, not
  // confirmed.
  std::int64_t unconfirmed = 0;
  // Not reported at all: refused, or the server stayed away until the worker had to end.
  std::int64_t unreported = 0;
};

// The worker's decisions: how many tasks to ask for, whose lease to extend, whom to kill, what to
// report, when to end.
//
//   leased -> running -(exits)-> settling -(answered)-> gone
//                |                  ^
//                | lease lost, or the grace of a stop is over
//                v                  | stop: Release, or Complete when it still ended well
//             killing -(exits)------+--> gone (lease lost: nothing to report)
//
// Thread: one at a time.
// Bounds: at most `slots` tasks run; polling pauses while `settles_max` ended tasks wait to be
// reported. Invariants: every task leased is counted in exactly one other field of the summary once
// Finished.
class WorkBook {
 public:
  struct Options {
    int slots = 1;
    Duration lease = std::chrono::seconds(30);
    Duration grace = std::chrono::seconds(30);
    // Between the polite signal and the hard one.
    Duration kill_wait = std::chrono::seconds(5);
    // How long reports are still tried after a stop has nothing else to wait for.
    Duration report_wait = std::chrono::seconds(5);
    std::int64_t tasks_max = 0;  // 0 = no end.
    std::size_t settles_max = 1'000;
  };

  using Key = std::uint64_t;

  enum class Settle { kComplete, kFail, kRelease };

  struct Report {
    Key key;
    std::string token;
    TaskExit exit;
  };

  struct Actions {
    std::vector<Key> terminate;
    std::vector<Key> kill;
    std::vector<std::pair<Key, std::string>> extend;
  };

  explicit WorkBook(Options options);

  // Tasks to ask for now; 0 = do not ask.
  [[nodiscard]] int PollSize() const;
  // False once no further poll will ever be wanted.
  [[nodiscard]] bool polling() const;

  // A task handed to us, with the time left. It must be started.
  Key OnLeased(std::string token, Duration left, Instant now);

  // A task that arrived although none was wanted any more: goes back unworked.
  Key OnLeasedTooLate(std::string token);
  // Its command could not be started: goes back unworked.
  void OnNotStarted(Key key);

  // The command ended.
  void OnExit(Key key, TaskExit exit, Instant now);

  // What is due at `now`. Extends are grouped: one that is due takes those along that are nearly
  // due. Tasks in `extend` are not due again until OnExtendAnswer.
  Actions Tick(Instant now);
  void OnExtendAnswer(Key key, ItemAnswer answer, Instant sent, Instant now);
  // When Tick has something to do next; Instant::Max() = nothing known.
  [[nodiscard]] Instant NextTick() const;

  // Up to `count_max` reports of one kind, oldest first; they count as sent until answered.
  std::vector<Report> TakeReports(Settle kind, std::size_t count_max);
  [[nodiscard]] bool HasReports(Settle kind) const {
    return !queues_[static_cast<int>(kind)].empty();
  }
  void OnReportAnswer(Key key, ItemAnswer answer);

  // No new work; what runs may end by itself (--until-empty, --max-tasks).
  void StopPolling() { polling_ = false; }
  // Signal: no new work; what still runs when the grace is over is killed and released. `at_once` =
  // no grace.
  void Stop(bool at_once, Instant now);
  [[nodiscard]] bool stopping() const { return stop_; }
  // Counts what cannot be reported any more and forgets it; for use when report_wait is over.
  void GiveUpReports();

  // How tasks ended since the last call, in that order. Must be taken now and then.
  std::vector<std::pair<Key, TaskEnd>> TakeEnds() { return std::exchange(ends_, {}); }
  [[nodiscard]] Instant give_up_at() const { return give_up_at_; }

  [[nodiscard]] bool Idle() const { return tasks_.empty(); }
  [[nodiscard]] bool Finished() const { return !polling() && tasks_.empty(); }
  [[nodiscard]] std::size_t running() const { return running_; }
  [[nodiscard]] const WorkSummary& summary() const { return summary_; }

 private:
  enum class Phase { kRunning, kKilling, kSettling };
  enum class KillCause { kNone, kLeaseLost, kStop };

  struct Task {
    std::string token;
    Phase phase = Phase::kRunning;
    KillCause cause = KillCause::kNone;
    bool extending = false;
    bool hard_killed = false;
    bool uncertain = false;
    bool reporting = false;
    Settle settle = Settle::kComplete;
    TaskExit exit;
    Instant lease_end;
    Instant extend_at;
    Instant kill_at = Instant::Max();
  };

  // The next extend: a third of the lease gone. After a failure sooner.
  void PlanExtend(Task& task, Duration left, Instant now);
  void StartKill(Key key, Task& task, KillCause cause, Instant now, Actions& actions);
  void QueueReport(Key key, Task& task, Settle settle);
  void CountEnd(Key key, TaskEnd end);
  void PlanGiveUp(Instant now);

  const Options options_;
  Duration kill_wait_;
  bool polling_ = true;
  bool stop_ = false;
  Instant grace_end_ = Instant::Max();
  Instant give_up_at_ = Instant::Max();
  Key last_key_ = 0;
  std::size_t running_ = 0;  // Phases kRunning and kKilling.
  std::map<Key, Task> tasks_;
  std::set<Key> queues_[3];  // By Settle; waiting to be sent, in order of leasing.
  WorkSummary summary_;
  std::vector<std::pair<Key, TaskEnd>> ends_;
};

}  // namespace millrace::cli
