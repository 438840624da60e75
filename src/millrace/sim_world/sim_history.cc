#include "millrace/sim_world/sim_history.h"

#include <charconv>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/proto_names.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::sim {
namespace {

namespace enums = ::temporal::api::enums::v1;
namespace matching_pb = ::temporal::server::api::matchingservice::v1;
namespace persistence_pb = ::temporal::server::api::persistence::v1;
using rpc::Code;
using rpc::RpcStatus;

std::string Name(std::int64_t task) { return "workflow task " + std::to_string(task); }

std::int64_t TaskOf(const std::string& workflow_id) {
  std::int64_t task = 0;
  (void)std::from_chars(workflow_id.data() + 1, workflow_id.data() + workflow_id.size(), task);
  return task;
}

}  // namespace

std::string SimWorkflowId(std::int64_t task) { return "w" + std::to_string(task); }

SimHistory::SimHistory(Judge& judge, Coverage& coverage, Random& random, TaskLedger& ledger,
                       SimExecutor& network)
    : judge_(judge), coverage_(coverage), random_(random), ledger_(ledger), network_(network) {}

std::int64_t SimHistory::Schedule(bool may_expire) {
  tasks_.emplace_back().may_expire = may_expire;
  return static_cast<std::int64_t>(tasks_.size());
}

void SimHistory::AddAcknowledged(std::int64_t task, std::int64_t number) {
  Task& entry = tasks_[static_cast<std::size_t>(task - 1)];
  entry.acknowledged = true;
  if (ledger_.WasStored(number)) {
    ledger_.Accepted(number);
    return;
  }
  coverage_.Reach("task matched without being stored");
  judge_.Expect(IsSettled(task), [&] {
    return Name(task) + " was acknowledged, but is neither stored nor started";
  });
}

bool SimHistory::IsSettled(std::int64_t task) const {
  return tasks_[static_cast<std::size_t>(task - 1)].state != State::kScheduled;
}

RpcStatus SimHistory::Trouble() {
  if (Lot(troubles_.unavailable)) return {Code::kUnavailable, "simulated", {}};
  if (Lot(troubles_.exhausted)) {
    return temporal::ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED,
                                            enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM,
                                            kExhaustedMessage);
  }
  if (Lot(troubles_.busy_workflow)) {
    return temporal::ResourceExhaustedError(enums::RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW,
                                            enums::RESOURCE_EXHAUSTED_SCOPE_NAMESPACE, "simulated");
  }
  if (Lot(troubles_.handover)) return temporal::NamespaceHandoverError();
  return {};
}

SimHistory::Verdict SimHistory::OnStart(std::int64_t task, std::int64_t number,
                                        const std::string& request_id, int server) {
  if (task <= 0 || task > static_cast<std::int64_t>(tasks_.size())) {
    judge_.Fail("history was asked to start a task that nobody scheduled");
    return {{Code::kNotFound, "no such task", {}}, {}};
  }
  Task& entry = tasks_[static_cast<std::size_t>(task - 1)];
  if (RpcStatus trouble = Trouble(); !trouble.ok()) {
    coverage_.Reach("history answers " + std::string(rpc::CodeName(trouble.code)));
    return {std::move(trouble), {}};
  }
  // From here on whatever is stored of it may go.
  ledger_.FinishAsked(number);
  if (entry.state == State::kScheduled && Lot(troubles_.internal)) {
    coverage_.Reach("history answers INTERNAL");
    entry.state = State::kOver;
    return {{Lot(500) ? Code::kInternal : Code::kDataLoss, "simulated", {}}, {}};
  }
  if (entry.state == State::kScheduled && Lot(troubles_.over)) entry.state = State::kOver;
  if (entry.state == State::kOver) {
    coverage_.Reach("history answers that the task is over");
    return {Lot(500) ? temporal::NotFoundError("simulated")
                     : temporal::ObsoleteMatchingTaskError("simulated"),
            {}};
  }
  if (entry.state == State::kStarted && entry.started_by != request_id) {
    coverage_.Reach("history answers ALREADY_EXISTS");
    return {temporal::TaskAlreadyStartedError(), {}};
  }
  judge_.Expect(entry.state != State::kStarted,
                [&] { return "a request id was used for two calls"; });
  entry.state = State::kStarted;
  entry.started_by = request_id;
  std::string token = "start " + std::to_string(starts_.size() + 1);
  starts_[token].server = server;
  return {{}, std::move(token)};
}

void SimHistory::OnAnswered(int server, const Verdict& verdict) {
  if (!verdict.token.empty()) starts_.at(verdict.token).answered = true;
  if (verdict.status.message == kExhaustedMessage) ++servers_[server].exhausted;
}

void SimHistory::PollGot(int server, const std::string& token) {
  const auto it = starts_.find(token);
  if (it == starts_.end()) return judge_.Fail("a poll was answered with a task nobody started");
  ++it->second.handed;
  judge_.Expect(it->second.handed == 1 && it->second.answered && it->second.server == server,
                [&] { return "'" + token + "' went to more than one poll, or to a wrong one"; });
}

void SimHistory::CheckDone() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    judge_.Expect(task.state != State::kScheduled || task.may_expire, [&] {
      return Name(static_cast<std::int64_t>(i) + 1) +
             (task.acknowledged ? " was acknowledged and never started" : " was never taken");
    });
  }
  for (const auto& [token, start] : starts_) {
    if (!start.answered || !servers_.contains(start.server)) continue;
    judge_.Expect(start.handed == 1, [&] { return "'" + token + "' never reached a poll"; });
  }
  for (const auto& [number, server] : servers_) {
    judge_.Expect(server.exhausted == server.polls_turned_away, [&] {
      return "history was too busy " + std::to_string(server.exhausted) + " times, and " +
             std::to_string(server.polls_turned_away) + " polls were told";
    });
  }
}

Duration SimHistory::Latency() {
  const auto max = static_cast<std::uint64_t>(troubles_.latency_max.count());
  return Duration(static_cast<std::int64_t>(random_.Below(max + 1)));
}

// Calls of one server: delays both ways, messages lost, and a deadline. What is under way does not
// need the client any more once it is answered, and neither does history, which does what it was
// asked all the same.
class SimHistory::Client final : public temporal::History {
 public:
  Client(SimHistory& history, SimHost& host, int server)
      : history_(history), host_(host), server_(server) {
    history_.servers_[server];
  }

  void StartTask(temporal::StartRequest request,
                 UniqueFunction<void(temporal::StartResult)> done) override {
    persistence_pb::TaskInfo task;
    MR_CHECK(task.ParseFromString(request.task));
    auto start = std::make_shared<OpenStart>(OpenStart{history_, server_, &host_, {}, 0});
    start->done = std::move(done);
    SimExecutor& network = history_.network_;
    start->deadline = network.PostAt(host_.clock.ToSimulation(request.deadline), [start] {
      start->Answer({{Code::kDeadlineExceeded, "simulated deadline", {}}, {}});
    });
    const std::int64_t number = FindTaskMarker(task.run_id()).value_or(0);
    network.PostAt(
        network.clock().Now() + history_.Latency(),
        [start, number, task = TaskOf(task.workflow_id()),
         request_id = std::move(request.request_id)] { Arrive(start, task, number, request_id); });
  }
  void IsTaskValid(temporal::TaskType, std::string, Instant,
                   UniqueFunction<void(temporal::ValidResult)> done) override {
    host_.loop(0).Post([done = std::move(done)]() mutable { done({}); });
  }
  void StartQuery(temporal::QueryStart,
                  UniqueFunction<void(temporal::QueryStartResult)> done) override {
    host_.loop(0).Post([done = std::move(done)]() mutable {
      done({temporal::UnimplementedError("a simulated query"), {}});
    });
  }

 private:
  struct OpenStart {
    SimHistory& history;
    const int server;
    SimHost* host;  // Null: answered.
    UniqueFunction<void(temporal::StartResult)> done;
    exec::TimerId deadline;

    // The first answer counts.
    void Answer(Verdict verdict) {
      if (host == nullptr) return;
      SimHost& to = *std::exchange(host, nullptr);
      history.network_.CancelTimer(deadline);
      if (!to.crashed) history.OnAnswered(server, verdict);
      temporal::StartResult result;
      result.outcome = temporal::ClassifyStart(verdict.status);
      result.status = std::move(verdict.status);
      if (!verdict.token.empty()) {
        matching_pb::PollWorkflowTaskQueueResponse response;
        response.set_task_token(verdict.token);
        response.SerializeToString(&result.response);
      }
      to.loop(0).Post([run = std::move(done), result = std::move(result)]() mutable {
        run(std::move(result));
      });
    }
  };

  static void Arrive(const std::shared_ptr<OpenStart>& start, std::int64_t task,
                     std::int64_t number, const std::string& request_id) {
    SimHistory& history = start->history;
    if (history.Lot(history.troubles_.request_lost)) {
      return start->Answer({{Code::kUnavailable, "simulated: request lost", {}}, {}});
    }
    Verdict verdict = history.OnStart(task, number, request_id, start->server);
    if (history.Lot(history.troubles_.slow)) return;
    if (history.Lot(history.troubles_.reply_lost)) {
      verdict = {{Code::kUnavailable, "simulated: reply lost", {}}, {}};
    }
    SimExecutor& network = history.network_;
    network.PostAt(network.clock().Now() + history.Latency(),
                   [start, verdict = std::move(verdict)] { start->Answer(verdict); });
  }

  SimHistory& history_;
  SimHost& host_;
  const int server_;
};

std::unique_ptr<temporal::History> SimHistory::ClientOn(SimHost& host, int server) {
  return std::make_unique<Client>(*this, host, server);
}

}  // namespace millrace::sim
