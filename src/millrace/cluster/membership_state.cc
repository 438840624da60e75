#include "millrace/cluster/membership_state.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::cluster {
namespace {

// Beyond this nothing counts as this node's all along.
constexpr std::size_t kSinceSettledMax = 16;
// After a silence of its own a node that misses others waits for so many heartbeats: they may have
// been as silent as it was, and are on their way back.
constexpr int kQuietBeats = 2;

}  // namespace

MembershipState::MembershipState(MembershipConfig config)
    : config_(std::move(config)), members_(std::make_shared<const Members>()) {
  Publish();
}

store::NodeBeat MembershipState::NextBeat(std::int64_t queues) const {
  return {.id = config_.id,
          .incarnation = config_.incarnation,
          .address = config_.address,
          .state = leaving_ ? store::NodeState::kLeaving : store::NodeState::kServing,
          .applied = applied_round_ == round_ ? members_->fingerprint() : 0,
          .queues = queues,
          .expiry = config_.expiry};
}

void MembershipState::OnBeat(const store::NodeBeat& beat, Instant started, Instant now,
                             store::NodeRows rows) {
  const bool was_silent = ever_ && now >= fresh_until_;
  ever_ = true;
  const auto mine = std::find_if(rows.rows.begin(), rows.rows.end(),
                                 [this](const auto& row) { return row.id == config_.id; });
  replaced_ = mine != rows.rows.end() && mine->incarnation != config_.incarnation;
  // An answer that took so long that the row has expired meanwhile is no sign of life.
  if (mine != rows.rows.end() && !replaced_) fresh_until_ = started + config_.expiry;
  const MembersPtr before = members_;
  SetMembers(std::move(rows.rows));
  const bool changed = members_->fingerprint() != before->fingerprint();
  if (was_silent) {
    recovering_ = true;
    all_ = true;
    since_settled_.clear();
    const bool misses = members_->size() < before->size();
    if (misses) quiet_until_ = now + kQuietBeats * config_.heartbeat;
  }
  if (changed || was_silent) {
    ++round_;
    if (since_settled_.size() >= kSinceSettledMax) since_settled_.clear();
    if (!since_settled_.empty()) since_settled_.push_back(members_);
  }
  published_ = applied_round_ == round_ && beat.applied == members_->fingerprint() &&
               (beat.state == store::NodeState::kLeaving) == leaving_;
  Settle(now);
  Publish();
}

void MembershipState::SetMembers(std::vector<store::NodeRow> nodes) {
  nodes_ = std::move(nodes);
  std::vector<Members::Member> serving;
  for (const store::NodeRow& node : nodes_) {
    const bool self = node.id == config_.id;
    if (node.state == store::NodeState::kLeaving || (self && (leaving_ || replaced_))) continue;
    serving.push_back({node.id, node.incarnation});
  }
  members_ = std::make_shared<const Members>(std::move(serving));
}

void MembershipState::Settle(Instant now) {
  const std::uint64_t wanted = members_->fingerprint();
  const bool agreed = std::all_of(nodes_.begin(), nodes_.end(), [&](const store::NodeRow& node) {
    return node.applied == wanted;
  });
  settled_ = published_ && (agreed || MR_MUTANT(owner_before_agreement)) && !recovering_ &&
             now >= quiet_until_;
  if (settled_) since_settled_.assign(1, members_);
}

void MembershipState::Leave() {
  if (leaving_) return;
  leaving_ = true;
  published_ = false;
  settled_ = false;
  since_settled_.clear();
  SetMembers(std::move(nodes_));
  ++round_;
  Publish();
}

MembershipState::GiveUp MembershipState::TakeGiveUp() {
  if (giving_up_round_ != 0 || applied_round_ == round_) return {};
  giving_up_round_ = round_;
  giving_up_all_ = std::exchange(all_, false);
  return {round_, giving_up_all_, members_};
}

void MembershipState::OnGivenUp(std::uint64_t round) {
  MR_CHECK(round == giving_up_round_);
  giving_up_round_ = 0;
  // A new silence meanwhile asks for all once more.
  if (giving_up_all_ && !all_) recovering_ = false;
  if (round == round_) applied_round_ = round;
  Publish();
}

bool MembershipState::Hurried() const { return !ever_ || !settled_; }

void MembershipState::Publish() {
  auto view = std::make_shared<View>();
  view->self = config_.id;
  view->members = members_;
  view->nodes = nodes_;
  view->settled = settled_;
  view->recovering = recovering_;
  view->fresh_until = fresh_until_;
  view->since_settled = since_settled_;
  view_ = std::move(view);
}

}  // namespace millrace::cluster
