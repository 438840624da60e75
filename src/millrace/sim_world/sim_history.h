#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/rpc/status.h"
#include "millrace/sim/sim_executor.h"
#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/judge.h"
#include "millrace/sim_world/sim_host.h"
#include "millrace/sim_world/task_ledger.h"
#include "millrace/temporal/history.h"

namespace millrace::sim {

// Of 1,000 starts.
struct HistoryTroubles {
  int request_lost = 0;
  int reply_lost = 0;
  int unavailable = 0;
  int exhausted = 0;
  int busy_workflow = 0;
  int handover = 0;
  int internal = 0;
  int slow = 0;  // Beyond the caller's patience.
  int over = 0;  // The workflow ends while its task waits.
  Duration latency_max = std::chrono::milliseconds(5);
};

// The history service of a simulated cluster: which workflow tasks there are, and what became of
// each. A task is in matching once or, after an add of unknown outcome, several times; each of
// these has a number in the ledger of its own.
//
// Rules checked here:
//   a task is started once, and the answer that says so goes to one poll, however often history is
//   asked; a poll is answered with nothing else;
//   a history that has too much to do is asked no oftener than it turns polls away;
//   what was acknowledged is started, or has become needless, or has expired (CheckDone).
//
// Thread: one at a time.
class SimHistory {
 public:
  SimHistory(Judge& judge, Coverage& coverage, Random& random, TaskLedger& ledger,
             SimExecutor& network);

  void SetTroubles(const HistoryTroubles& troubles) { troubles_ = troubles; }

  // A workflow schedules a task; its number. May expire before it is started.
  std::int64_t Schedule(bool may_expire);
  // An add of it, as `number` of the ledger, was answered with ok.
  void AddAcknowledged(std::int64_t task, std::int64_t number);
  // There is no need to add it any more.
  [[nodiscard]] bool IsSettled(std::int64_t task) const;

  // A poll was answered by this life of a server, which is not cut off.
  void PollGot(int server, const std::string& token);
  void PollTurnedAway(int server) { ++servers_[server].polls_turned_away; }
  // The server's word counts no more.
  void Forget(int server) { servers_.erase(server); }

  // Every task that was acknowledged has come to its end.
  void CheckDone();

  // How a server's calls come here. Outlives the service that makes them.
  std::unique_ptr<temporal::History> ClientOn(SimHost& host, int server);

 private:
  class Client;

  enum class State : std::uint8_t { kScheduled, kStarted, kOver };
  struct Task {
    State state = State::kScheduled;
    std::string started_by;  // Request id.
    bool may_expire = false;
    bool acknowledged = false;
  };
  struct Start {
    int server = 0;
    bool answered = false;  // The server was told.
    int handed = 0;
  };
  struct Server {
    std::int64_t exhausted = 0;  // Answers that said so.
    std::int64_t polls_turned_away = 0;
  };
  struct Verdict {
    rpc::RpcStatus status;
    std::string token;  // When started.
  };

  // A start that reached history.
  Verdict OnStart(std::int64_t task, std::int64_t number, const std::string& request_id,
                  int server);
  rpc::RpcStatus Trouble();
  void OnAnswered(int server, const Verdict& verdict);
  [[nodiscard]] bool Lot(int of_1000) { return static_cast<int>(random_.Below(1'000)) < of_1000; }
  Duration Latency();

  Judge& judge_;
  Coverage& coverage_;
  Random& random_;
  TaskLedger& ledger_;
  SimExecutor& network_;
  HistoryTroubles troubles_;
  std::vector<Task> tasks_;              // Index: number - 1.
  std::map<std::string, Start> starts_;  // By token.
  std::map<int, Server> servers_;
};

// The task's workflow id, and its run id, which holds the ledger's number.
std::string SimWorkflowId(std::int64_t task);
inline constexpr char kExhaustedMessage[] = "simulated: too much to do";

}  // namespace millrace::sim
