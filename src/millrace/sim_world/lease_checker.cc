#include "millrace/sim_world/lease_checker.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <millrace/v1/queue.pb.h>

#include <utility>

#include "millrace/queue/lease_token.h"

namespace millrace::sim {
namespace {

constexpr char kOutcomeUnknown[] = "OUTCOME_UNKNOWN";
constexpr char kLeaseLost[] = "LEASE_LOST";

std::string Task(std::int64_t number) { return "task " + std::to_string(number); }

Duration ToDuration(const google::protobuf::Duration& d) {
  return std::chrono::seconds(d.seconds()) + std::chrono::nanoseconds(d.nanos());
}

}  // namespace

std::string_view SettleKindName(SettleKind kind) {
  switch (kind) {
    case SettleKind::kComplete:
      return "Complete";
    case SettleKind::kFail:
      return "Fail";
    case SettleKind::kRelease:
      return "Release";
    case SettleKind::kExtend:
      return "Extend";
  }
  return "";
}

std::string ReasonOf(const rpc::RpcStatus& status) {
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.details)) return {};
  for (const auto& detail : rich.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return {};
}

LeaseChecker::LeaseChecker(SimScheduler& scheduler, Judge& judge, Coverage& coverage,
                           TaskLedger& ledger, AuditedStore& durable)
    : scheduler_(scheduler),
      judge_(judge),
      coverage_(coverage),
      ledger_(ledger),
      durable_(durable) {}

std::int64_t LeaseChecker::StoredEpoch(const store::PhysicalQueueKey& queue) const {
  const QueueImage* image = durable_.Image(queue);
  return image == nullptr ? 0 : image->metadata.range_id.value;
}

void LeaseChecker::OnEnqueueAnswered(const std::vector<std::int64_t>& tasks,
                                     const rpc::RpcStatus& status, const std::string& response) {
  if (!status.ok()) {
    const std::string reason = ReasonOf(status);
    coverage_.Reach("Enqueue answered " + std::string(rpc::CodeName(status.code)) + " " + reason);
    if (reason == kOutcomeUnknown || status.code == rpc::Code::kCancelled) return;
    for (const std::int64_t task : tasks) ledger_.Refused(task);
    return;
  }
  v1::EnqueueResponse reply;
  if (!reply.ParseFromString(response) || reply.results_size() != static_cast<int>(tasks.size())) {
    judge_.Fail("an answer to Enqueue does not fit its request");
    return;
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const v1::EnqueueResult& result = reply.results(static_cast<int>(i));
    if (result.has_error()) {
      if (result.error().reason() != kOutcomeUnknown) ledger_.Refused(tasks[i]);
      continue;
    }
    ledger_.Accepted(tasks[i]);
    judge_.Expect(used_public_ids_.insert(result.task_id()).second ||
                      public_ids_[tasks[i]] == result.task_id(),
                  [&] { return "two tasks have the id " + result.task_id(); });
    const auto known = public_ids_.try_emplace(tasks[i], result.task_id()).first;
    judge_.Expect(known->second == result.task_id(), [&] {
      return Task(tasks[i]) + " changed its id from " + known->second + " to " + result.task_id();
    });
  }
}

void LeaseChecker::OnLeaseAnswered(const store::PhysicalQueueKey& queue, int server,
                                   const rpc::RpcStatus& status, const std::string& response) {
  if (!status.ok()) {
    coverage_.Reach("Lease answered " + std::string(rpc::CodeName(status.code)) + " " +
                    ReasonOf(status));
    return;
  }
  v1::LeaseResponse reply;
  if (!reply.ParseFromString(response)) {
    judge_.Fail("an answer to Lease does not parse");
    return;
  }
  coverage_.Reach(reply.tasks_size() == 0 ? "Lease answered empty" : "Lease answered with tasks");
  for (const v1::LeasedTask& leased : reply.tasks()) {
    const auto number = FindTaskMarker(leased.payload());
    const auto token = queue::DecodeLeaseToken(leased.lease_token());
    if (!number || !token) {
      judge_.Fail("a leased task has a damaged payload or token");
      return;
    }
    scheduler_.Trace("leased", *number, token->task.value, token->epoch.value);
    if (token->epoch.value == StoredEpoch(queue)) ledger_.Delivered(*number);
    const auto known = public_ids_.try_emplace(*number, leased.task_id()).first;
    used_public_ids_.insert(leased.task_id());
    judge_.Expect(known->second == leased.task_id(), [&] {
      return Task(*number) + " changed its id from " + known->second + " to " + leased.task_id();
    });
    judge_.Expect(leased.attempt() >= 1 &&
                      (leased.max_attempts() == 0 || leased.attempt() <= leased.max_attempts()),
                  [&] {
                    return Task(*number) + " has attempt " + std::to_string(leased.attempt()) +
                           " of " + std::to_string(leased.max_attempts());
                  });
    // The last attempt may end as dead without any client asking for it.
    if (leased.max_attempts() > 0 && leased.attempt() == leased.max_attempts())
      ledger_.FinishAsked(*number);

    Lease lease;
    lease.task = *number;
    lease.epoch = token->epoch.value;
    lease.server = server;
    lease.ends_at = scheduler_.now() + ToDuration(leased.lease_duration());
    for (const std::string& other_token : by_task_[*number]) {
      Lease& other = leases_.at(other_token);
      if (other.epoch > lease.epoch) continue;
      const bool lives = !other.used_up && !other.maybe_used_up && !other.superseded &&
                         other.ends_at > scheduler_.now() && other.in_flight == 0;
      judge_.Expect(!lives || other.epoch != lease.epoch || other.server != server,
                    [&] { return Task(*number) + " has two leases at once"; });
      if (lives && other.server != server)
        coverage_.Reach("task leased again after a restart or take-over");
      // A task given back may be handed out again before the call that gave it back is answered.
      if (other.in_flight == 0) {
        other.superseded = true;
        other.superseded_by = server;
      }
    }
    by_task_[*number].push_back(leased.lease_token());
    judge_.Expect(leases_.emplace(leased.lease_token(), lease).second,
                  [&] { return "a lease token of " + Task(*number) + " was given out twice"; });
  }
}

void LeaseChecker::OnSettleSent(const std::string& token, bool ends_for_good) {
  const auto it = leases_.find(token);
  if (it == leases_.end()) return;
  ++it->second.in_flight;
  if (ends_for_good) ledger_.FinishAsked(it->second.task);
}

void LeaseChecker::OnSettleLost(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) {
    const auto it = leases_.find(token);
    if (it == leases_.end()) continue;
    --it->second.in_flight;
    it->second.maybe_used_up = true;
  }
}

void LeaseChecker::OnSettleAnswered(SettleKind kind, const store::PhysicalQueueKey& queue,
                                    int server, const std::vector<std::string>& tokens,
                                    Duration extend_by, const rpc::RpcStatus& status,
                                    const std::string& response) {
  const std::string name(SettleKindName(kind));
  for (const std::string& token : tokens) {
    const auto it = leases_.find(token);
    if (it != leases_.end()) --it->second.in_flight;
  }
  if (!status.ok()) {
    const std::string reason = ReasonOf(status);
    coverage_.Reach(name + " answered " + std::string(rpc::CodeName(status.code)) + " " + reason);
    for (const std::string& token : tokens)
      CheckItem(kind, queue, server, token, extend_by, false, reason);
    return;
  }
  // The four responses have the same shape.
  v1::CompleteResponse reply;
  if (!reply.ParseFromString(response) || reply.results_size() != static_cast<int>(tokens.size())) {
    judge_.Fail("an answer to " + name + " does not fit its request");
    return;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const v1::ItemResult& result = reply.results(static_cast<int>(i));
    coverage_.Reach(name + " item " + (result.has_error() ? result.error().reason() : "ok"));
    CheckItem(kind, queue, server, tokens[i], extend_by, !result.has_error(),
              result.error().reason());
  }
}

void LeaseChecker::CheckItem(SettleKind kind, const store::PhysicalQueueKey& queue, int server,
                             const std::string& token, Duration extend_by, bool ok,
                             std::string_view reason) {
  const std::string name(SettleKindName(kind));
  const auto it = leases_.find(token);
  if (it == leases_.end()) {
    judge_.Expect(!ok, [&] { return name + " succeeded with a token that was never given out"; });
    return;
  }
  Lease& lease = it->second;
  const bool ends = kind != SettleKind::kExtend;
  scheduler_.Trace("settled", lease.task, static_cast<std::int64_t>(kind), ok ? 1 : 0);
  if (!ok) {
    if (reason == kOutcomeUnknown) {
      lease.maybe_used_up = lease.maybe_used_up || ends;
      return;
    }
    if (reason != kLeaseLost) return;
    const bool current = !lease.used_up && !lease.maybe_used_up && !lease.superseded &&
                         lease.in_flight == 0 && lease.ends_at > scheduler_.now() &&
                         lease.server == server && lease.epoch == StoredEpoch(queue);
    judge_.Expect(!current, [&] {
      return name + " of " + Task(lease.task) + " with its current lease was told it is lost";
    });
    return;
  }
  judge_.Expect(!lease.used_up, [&] {
    return name + " of " + Task(lease.task) + " succeeded with a used up token";
  });
  // A newer lease of an owner that has itself lost the queue does not count; it was never more than
  // an offer.
  // An owner that was overtaken and does not know it yet may still extend, which writes nothing.
  judge_.Expect(!lease.superseded || (!ends && lease.superseded_by != server), [&] {
    return name + " of " + Task(lease.task) + " succeeded with a superseded token";
  });
  if (!ends) {
    lease.ends_at = scheduler_.now() + extend_by;
    return;
  }
  lease.used_up = true;
  // A task given back may be finished by somebody else before this call is answered; that its row
  // never goes without a reason is the ledger's business.
  if (kind == SettleKind::kComplete) ledger_.Finished(lease.task);
}

void LeaseChecker::OnDescribeAnswered(const rpc::RpcStatus& status, const std::string& response) {
  if (!status.ok()) {
    coverage_.Reach("Describe answered " + std::string(rpc::CodeName(status.code)) + " " +
                    ReasonOf(status));
    return;
  }
  v1::DescribeResponse reply;
  if (!reply.ParseFromString(response)) {
    judge_.Fail("an answer to Describe does not parse");
    return;
  }
  const v1::QueueCounts& c = reply.queue().counts();
  coverage_.Reach(reply.queue().loaded() ? "Describe of a loaded queue"
                                         : "Describe of a queue not loaded");
  judge_.Expect(c.accepted() == c.done() + c.waiting() + c.leased() + c.dead() + c.dropped(),
                [] { return "the counts of Describe do not add up"; });
  judge_.Expect(c.accepted() >= 0 && c.done() >= 0 && c.waiting() >= 0 && c.leased() >= 0 &&
                    c.dead() >= 0 && c.dropped() >= 0,
                [&] { return "Describe shows a negative count: " + c.ShortDebugString(); });
}

}  // namespace millrace::sim
