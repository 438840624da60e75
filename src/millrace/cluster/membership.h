#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/cluster/membership_state.h"
#include "millrace/cluster/view.h"
#include "millrace/exec/executor.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/node_table.h"

namespace millrace::cluster {

// What membership asks of the node it speaks for. Thread: the strand's, one at a time; never inside
// a call of membership's.
class MembershipListener {
 public:
  virtual ~MembershipListener() = default;
  // There is another view; `changed`: it leads to other decisions than the one before.
  virtual void OnView(const ViewPtr& view, bool changed) = 0;
  // Give up all queues that are not `view`'s owner's any more, or `all`. From here on none of them
  // may be loaded unless the view allows it. `done`: they are gone, each with its last write; from
  // any thread.
  virtual void GiveUp(const MembershipState::GiveUp& what, Closure done) = 0;
  // The store's clock is ahead of this node's by so much.
  virtual void OnClock(Duration ahead) = 0;
  virtual std::int64_t LoadedQueues() = 0;
};

// Keeps this node's row in the node table alive, and tells what the others' rows mean.
//
// Thread: any, but for the callbacks. Destroy only after Stop is done.
// Fails: while the table does not answer the last view stays, until it is not fresh any more.
class Membership {
 public:
  // Everything handed in outlives it.
  Membership(const MembershipConfig& config, store::AsyncNodeTable& table, exec::Executor& home,
             Random& random, Log& log, Metrics& metrics, MembershipListener& listener);

  void Start();
  [[nodiscard]] ViewPtr view() MR_EXCLUDES(mutex_);
  // Somebody knows better: looks at the table soon, not more often than when hurried.
  void Nudge();
  // Gives up everything and tells the others. `left` runs once: everybody may know, or the table
  // has not answered in time. Once.
  void Leave(Closure left);
  // Ends beating, takes the row away. Once, after which nothing runs but `done`.
  void Stop(Closure done);

 private:
  void Beat();
  void OnAnswer(const store::NodeBeat& beat, Instant started, Result<store::NodeRows> rows);
  void Schedule(Duration wait);
  void Tell();
  void GiveUpIfNeeded();
  void CheckLeft();
  void TakeRowAway();

  const MembershipConfig config_;
  store::AsyncNodeTable& table_;
  Random& random_;
  Log& log_;
  MembershipListener& listener_;
  Counter& view_changes_;
  Counter& beats_failed_;
  Gauge& live_;

  exec::Strand strand_;
  exec::Gate gate_;  // Held by a giving up under way.
  exec::StrandTimer timer_;
  exec::StrandTimer leave_timer_;
  MembershipState state_ MR_GUARDED_BY(strand_);
  bool started_ MR_GUARDED_BY(strand_) = false;
  bool beating_ MR_GUARDED_BY(strand_) = false;
  bool nudged_ MR_GUARDED_BY(strand_) = false;
  bool giving_up_ MR_GUARDED_BY(strand_) = false;
  bool failing_ MR_GUARDED_BY(strand_) = false;
  bool said_replaced_ MR_GUARDED_BY(strand_) = false;
  Instant last_beat_ MR_GUARDED_BY(strand_){};
  std::uint64_t told_round_ MR_GUARDED_BY(strand_) = 0;
  bool told_may_ MR_GUARDED_BY(strand_) = false;
  Closure left_ MR_GUARDED_BY(strand_);
  Closure stopped_ MR_GUARDED_BY(strand_);
  bool stopping_ MR_GUARDED_BY(strand_) = false;

  Mutex mutex_;
  ViewPtr view_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
