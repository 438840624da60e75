#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/cluster/view.h"
#include "millrace/store/node_table.h"

namespace millrace::cluster {

struct MembershipConfig {
  std::string id;
  std::uint64_t incarnation = 0;
  std::string address;
  Duration heartbeat = std::chrono::seconds(1);
  Duration expiry = std::chrono::seconds(5);
  // Between beats while nodes have not agreed yet, or the table does not answer.
  Duration hurried_beat = std::chrono::milliseconds(100);
};

// What a node makes of the table's answers: who the members are, whether all nodes agree on that,
// which queues it must give up.
//
//   members change -> give up what is another's -> say so in the table (`applied`)
//     -> everybody alive has said so: settled
//
// Pure. Bounds: sets of members since the last settled ones, a few.
class MembershipState {
 public:
  explicit MembershipState(MembershipConfig config);

  [[nodiscard]] store::NodeBeat NextBeat(std::int64_t queues) const;
  [[nodiscard]] bool first() const { return !ever_; }

  // The table's answer to the beat made at `started`.
  void OnBeat(const store::NodeBeat& beat, Instant started, Instant now, store::NodeRows rows);
  // From here on this node is no member. Takes effect at once, whether the table answers or not.
  void Leave();

  // What to give up, if anything: queues that are not this node's among view()->members, or all.
  struct GiveUp {
    std::uint64_t round = 0;  // 0 = nothing to do.
    bool all = false;
    MembersPtr members;
  };
  // Once a round; the next one only after OnGivenUp.
  GiveUp TakeGiveUp();
  void OnGivenUp(std::uint64_t round);

  [[nodiscard]] const ViewPtr& view() const { return view_; }
  // Another process has taken this node's id.
  [[nodiscard]] bool replaced() const { return replaced_; }
  [[nodiscard]] bool leaving() const { return leaving_; }
  // Leaving, and the table says that everything was given up.
  [[nodiscard]] bool left() const { return leaving_ && published_ && applied_round_ == round_; }
  [[nodiscard]] bool Hurried() const;
  [[nodiscard]] std::uint64_t view_changes() const { return round_; }

 private:
  void SetMembers(std::vector<store::NodeRow> nodes);
  void Settle(Instant now);
  void Publish();

  const MembershipConfig config_;
  ViewPtr view_;
  MembersPtr members_;
  std::vector<store::NodeRow> nodes_;
  std::vector<MembersPtr> since_settled_;
  bool ever_ = false;
  bool leaving_ = false;
  bool replaced_ = false;
  bool settled_ = false;
  bool recovering_ = false;
  bool published_ = false;  // The table has `applied` of this round.
  Instant fresh_until_{};
  Instant quiet_until_{};
  std::uint64_t round_ = 0;  // Counts changes of members and recoveries.
  std::uint64_t applied_round_ = 0;
  std::uint64_t giving_up_round_ = 0;  // Under way; 0 = none.
  bool all_ = false;                   // The next giving up must be of all.
  bool giving_up_all_ = false;
};

}  // namespace millrace::cluster
