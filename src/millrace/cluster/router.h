#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/cluster/call_rules.h"
#include "millrace/cluster/peers.h"
#include "millrace/cluster/view.h"
#include "millrace/exec/executor.h"
#include "millrace/exec/gate.h"
#include "millrace/rpc/service.h"

namespace millrace::cluster {

struct RouterConfig {
  // How long a call without a nearer deadline waits for an owner, while queues move.
  Duration patience = std::chrono::seconds(10);
  std::size_t waiting_max = 10'000;
  // Between tries of a waiting call; a new view comes first most of the time.
  Duration retry_min = std::chrono::milliseconds(20);
  Duration retry_max = std::chrono::milliseconds(250);
  // For what other nodes have in memory, when all queues are listed.
  Duration list_timeout = std::chrono::seconds(2);
  // A Lease call that does not say how long it waits, waits this long; and none waits longer.
  Duration poll_wait_max = std::chrono::seconds(60);
};

// Stands before the handlers of QueueService: a call goes to the node that should own its queue,
// this one's handler or, once, another node. When the owner is not (yet, any more) to answer, the
// call waits here and is tried again; so the caller hears nothing of queues that move.
//
//   new -> here | passed on | waiting;   here, passed on --turned away--> waiting -> ...
//
// Thread: handlers on executor threads; OnView, BeginDrain, Stop any. Destroy only after Stop is
// done. Bounds: waiting_max; one more is turned away, as is one that waited for its time.
// Fails: a call that was passed on and whose connection broke is made again only if it is
// repeatable or was surely not sent; otherwise its outcome is unknown, and the caller is told so.
// Invariants: a call that came from another node is answered here, never passed on.
class Router {
 public:
  using Nudge = UniqueFunction<void()>;

  // `nudge`: another node sees other members than this one. Any thread. All that is handed in
  // outlives the router.
  Router(std::string self, const RouterConfig& config, exec::Executor& home, Peers& peers,
         Random& random, Metrics& metrics, Nudge nudge);
  ~Router();

  // Puts the router before QueueService's handlers in `table`.
  void Wrap(rpc::ServiceTable& table);

  void OnView(ViewPtr view, bool changed);
  // Waits for tasks end; other calls are still passed on.
  void BeginDrain();
  // Calls that wait are turned away. `done` runs once all that were passed on have ended; peers end
  // them. Once.
  void Stop(Closure done);

 private:
  struct Route;
  struct RoutedCall;
  class LocalCall;
  class ListCall;
  using RoutedPtr = std::shared_ptr<RoutedCall>;
  using WaitId = std::uint64_t;

  void Begin(Route& route, std::unique_ptr<rpc::ServerCall> call);
  void BeginList(Route& route, std::unique_ptr<rpc::ServerCall> call);
  void Try(const RoutedPtr& call);
  void Here(const RoutedPtr& call);
  void PassOn(const RoutedPtr& call, const store::NodeRow& owner);
  void OnPassedOnEnded(const RoutedPtr& call, rpc::CallResult result);
  // It was surely not done: tries again after a while, or with the next view.
  void Again(const RoutedPtr& call);
  // Null when somebody else took it.
  RoutedPtr TakeWaiting(WaitId id);
  std::vector<RoutedPtr> TakeAllWaiting(bool only_leases);
  void TurnAway(const RoutedPtr& call);
  std::string RequestOf(const RoutedCall& call) const;
  ViewPtr view();
  bool draining();

  const std::string self_;
  const RouterConfig config_;
  exec::Executor& home_;
  Peers& peers_;
  Random& random_;
  Nudge nudge_;
  Counter& passed_on_;
  Counter& turned_away_;
  Counter& unknown_;
  Counter& waited_;
  std::vector<std::unique_ptr<Route>> routes_;
  exec::Gate gate_;  // Held by calls that were passed on.

  Mutex mutex_;
  ViewPtr view_ MR_GUARDED_BY(mutex_);
  std::map<WaitId, RoutedPtr> waiting_ MR_GUARDED_BY(mutex_);
  // Waits for tasks at other nodes.
  std::map<WaitId, Peers::CallId> polls_ MR_GUARDED_BY(mutex_);
  WaitId last_id_ MR_GUARDED_BY(mutex_) = 0;
  bool draining_ MR_GUARDED_BY(mutex_) = false;
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::cluster
