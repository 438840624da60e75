#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/rpc/status.h"
#include "millrace/sim/sim_scheduler.h"
#include "millrace/sim_world/audited_store.h"
#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/judge.h"
#include "millrace/sim_world/task_ledger.h"
#include "millrace/store/types.h"

namespace millrace::sim {

enum class SettleKind : std::uint8_t { kComplete, kFail, kRelease, kExtend };
std::string_view SettleKindName(SettleKind kind);

// The books over the queue API: every lease handed out and what became of it. Told at the moment a
// server answers.
//
// Rules checked here:
//   a token is never given out twice, and two leases of one task never live at once inside one
//   owner; a token that was used up or superseded never succeeds; one that is current is not
//   refused as lost; ids shown to clients are unique, and a task keeps its own; attempts count up
//   by one and stay within the maximum; what the ledger says about acknowledged, delivered and
//   finished tasks.
//
// Thread: one at a time.
class LeaseChecker {
 public:
  LeaseChecker(SimScheduler& scheduler, Judge& judge, Coverage& coverage, TaskLedger& ledger,
               AuditedStore& durable);

  // `server`: a number for one life of one server.
  void OnEnqueueAnswered(const std::vector<std::int64_t>& tasks, const rpc::RpcStatus& status,
                         const std::string& response);
  void OnLeaseAnswered(const store::PhysicalQueueKey& queue, int server,
                       const rpc::RpcStatus& status, const std::string& response);

  // A client is about to use the token. `ends_for_good`: the task may be done or dead afterwards.
  void OnSettleSent(const std::string& token, bool ends_for_good);
  void OnSettleAnswered(SettleKind kind, const store::PhysicalQueueKey& queue, int server,
                        const std::vector<std::string>& tokens, Duration extend_by,
                        const rpc::RpcStatus& status, const std::string& response);
  // The call's answer will never come from a server that lives.
  void OnSettleLost(const std::vector<std::string>& tokens);

  void OnDescribeAnswered(const rpc::RpcStatus& status, const std::string& response);

 private:
  struct Lease {
    std::int64_t task = 0;
    std::int64_t epoch = 0;
    int server = 0;
    Instant ends_at;
    bool used_up = false;        // A call with its token succeeded in ending it.
    bool maybe_used_up = false;  // A call with its token has an unknown outcome.
    int in_flight = 0;
    bool superseded = false;  // The task was handed out again by the same or a later owner,
    int superseded_by = 0;    // last by this server.
  };

  [[nodiscard]] std::int64_t StoredEpoch(const store::PhysicalQueueKey& queue) const;
  void CheckItem(SettleKind kind, const store::PhysicalQueueKey& queue, int server,
                 const std::string& token, Duration extend_by, bool ok, std::string_view reason);

  SimScheduler& scheduler_;
  Judge& judge_;
  Coverage& coverage_;
  TaskLedger& ledger_;
  AuditedStore& durable_;
  std::map<std::string, Lease> leases_;  // By token.
  std::map<std::int64_t, std::vector<std::string>> by_task_;
  std::map<std::int64_t, std::string> public_ids_;  // By task.
  std::set<std::string> used_public_ids_;
};

// Reason of google.rpc.ErrorInfo in the details of a status; empty when there is none.
std::string ReasonOf(const rpc::RpcStatus& status);

}  // namespace millrace::sim
