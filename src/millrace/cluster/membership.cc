#include "millrace/cluster/membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::cluster {
namespace {

constexpr Duration kBetweenNudged = std::chrono::milliseconds(50);

std::string Names(const View& view) {
  std::string names;
  for (const store::NodeRow& node : view.nodes) {
    if (!names.empty()) names += ", ";
    names += node.id;
    if (node.state == store::NodeState::kLeaving) names += " (leaving)";
  }
  return names;
}

}  // namespace

Membership::Membership(const MembershipConfig& config, store::AsyncNodeTable& table,
                       exec::Executor& home, Random& random, Log& log, Metrics& metrics,
                       MembershipListener& listener)
    : config_(config),
      table_(table),
      random_(random),
      log_(log),
      listener_(listener),
      view_changes_(metrics.GetCounter("millrace_node_view_changes_total",
                                       "Times that the set of nodes that share the queues changed "
                                       "in this node's eyes.")),
      beats_failed_(metrics.GetCounter("millrace_node_heartbeats_failed_total",
                                       "Heartbeats that the node table did not answer.")),
      live_(metrics.GetGauge("millrace_nodes", "Live nodes, this one included.")),
      strand_(home),
      timer_(strand_),
      leave_timer_(strand_),
      state_(config),
      view_(std::make_shared<const View>()) {}

void Membership::Start() {
  strand_.Post([this] {
    strand_.AssertCurrent();
    MR_CHECK(!started_);
    started_ = true;
    if (!stopping_) Beat();
  });
}

ViewPtr Membership::view() {
  MutexLock lock(mutex_);
  return view_;
}

void Membership::Nudge() {
  strand_.Post([this] {
    strand_.AssertCurrent();
    if (!started_ || stopping_) return;
    nudged_ = true;
    if (beating_) return;
    const Instant soon = std::max(strand_.clock().Now(), last_beat_ + kBetweenNudged);
    if (soon < timer_.when()) timer_.Arm(soon, [this] { Beat(); });
  });
}

void Membership::Beat() {
  strand_.AssertCurrent();
  if (beating_ || stopping_) return;
  timer_.Cancel();
  beating_ = true;
  nudged_ = false;
  last_beat_ = strand_.clock().Now();
  store::NodeBeat beat = state_.NextBeat(listener_.LoadedQueues());
  store::NodeBeat said = beat;
  table_.Beat(std::move(said), state_.first(), strand_,
              [this, beat = std::move(beat), started = last_beat_](Result<store::NodeRows> rows) {
                strand_.AssertCurrent();
                OnAnswer(beat, started, std::move(rows));
              });
}

void Membership::OnAnswer(const store::NodeBeat& beat, Instant started,
                          Result<store::NodeRows> rows) {
  strand_.AssertCurrent();
  beating_ = false;
  if (stopping_) return TakeRowAway();
  if (!rows.ok()) {
    beats_failed_.Increment();
    if (!std::exchange(failing_, true)) {
      const std::string why = rows.status().ToString();
      log_.Write(LogLevel::kWarn, "cluster", "the node table does not answer",
                 {{"error", std::string_view(why)}});
    }
    Schedule(std::min(config_.heartbeat, 3 * config_.hurried_beat));
    return;
  }
  failing_ = false;
  const Instant now = strand_.clock().Now();
  // The store looked at its clock somewhere between.
  const Duration half = (now - started) / 2;
  listener_.OnClock(rows->now - (strand_.clock().WallNow() - half));
  state_.OnBeat(beat, started, now, std::move(*rows));
  if (state_.replaced() && !std::exchange(said_replaced_, true)) {
    log_.Write(LogLevel::kError, "cluster",
               "another process uses this node's id: this one owns no queues",
               {{"node", std::string_view(config_.id)}});
  }
  Tell();
  GiveUpIfNeeded();
  CheckLeft();
  Schedule(state_.Hurried() ? config_.hurried_beat : config_.heartbeat);
}

void Membership::Schedule(Duration wait) {
  strand_.AssertCurrent();
  if (beating_ || stopping_) return;
  if (nudged_) wait = std::min(wait, kBetweenNudged);
  // Nodes that started together do not stay together.
  const auto tenth = static_cast<std::uint64_t>(std::max<std::int64_t>(1, wait.count() / 10));
  timer_.Arm(
      strand_.clock().Now() + wait - Duration(static_cast<std::int64_t>(random_.Below(tenth))),
      [this] { Beat(); });
}

void Membership::Tell() {
  strand_.AssertCurrent();
  const ViewPtr& view = state_.view();
  const bool may = view->settled;
  const bool changed = told_round_ != state_.view_changes() || told_may_ != may || view->recovering;
  if (told_round_ != state_.view_changes()) {
    view_changes_.Increment();
    const std::string names = Names(*view);
    log_.Write(LogLevel::kInfo, "cluster", "nodes changed",
               {{"live", std::string_view(names)},
                {"members", static_cast<std::int64_t>(view->members->size())}});
  }
  told_round_ = state_.view_changes();
  told_may_ = may;
  live_.Set(static_cast<double>(view->nodes.size()));
  {
    MutexLock lock(mutex_);
    view_ = view;
  }
  listener_.OnView(view, changed);
}

void Membership::GiveUpIfNeeded() {
  strand_.AssertCurrent();
  if (giving_up_) return;
  const MembershipState::GiveUp what = state_.TakeGiveUp();
  if (what.round == 0) return;
  giving_up_ = true;
  listener_.GiveUp(what, [this, round = what.round, hold = gate_.Enter()]() mutable {
    strand_.Post([this, round, hold = std::move(hold)] {
      strand_.AssertCurrent();
      giving_up_ = false;
      state_.OnGivenUp(round);
      if (stopping_) return;
      Tell();
      GiveUpIfNeeded();
      CheckLeft();
      // The others wait to hear of it.
      if (!beating_) Beat();
      nudged_ = true;
    });
  });
}

void Membership::Leave(Closure left) {
  strand_.Post([this, left = std::move(left)]() mutable {
    strand_.AssertCurrent();
    MR_CHECK(!left_);
    left_ = std::move(left);
    state_.Leave();
    Tell();
    GiveUpIfNeeded();
    leave_timer_.Arm(strand_.clock().Now() + config_.expiry, [this] {
      strand_.AssertCurrent();
      if (left_) std::exchange(left_, {})();
    });
    if (started_ && !beating_) Beat();
    nudged_ = true;
    CheckLeft();
  });
}

void Membership::CheckLeft() {
  strand_.AssertCurrent();
  if (!left_ || (started_ && !state_.left())) return;
  leave_timer_.Cancel();
  std::exchange(left_, {})();
}

void Membership::Stop(Closure done) {
  strand_.Post([this, done = std::move(done)]() mutable {
    strand_.AssertCurrent();
    MR_CHECK(!stopping_);
    stopping_ = true;
    timer_.Cancel();
    leave_timer_.Cancel();
    if (left_) std::exchange(left_, {})();
    stopped_ = std::move(done);
    if (beating_) return;  // Its answer goes on.
    if (started_) return TakeRowAway();
    gate_.Close(std::exchange(stopped_, {}));
  });
}

void Membership::TakeRowAway() {
  strand_.AssertCurrent();
  table_.Remove(config_.id, config_.incarnation, strand_, [this](const Status&) {
    strand_.AssertCurrent();
    gate_.Close(std::exchange(stopped_, {}));
  });
}

}  // namespace millrace::cluster
