#include "millrace/sim_world/matching_world.h"

#include <algorithm>
#include <utility>

#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
namespace enums = ::temporal::api::enums::v1;
namespace matching_pb = ::temporal::server::api::matchingservice::v1;

constexpr char kClusterNamespace[] = "0a1b2c3d-0000-4000-8000-000000000001";
constexpr int kPartitions = 3;
constexpr Duration kAddTimeout = seconds(4);

class ServedMatching final : public ServedService {
 public:
  ServedMatching(const temporal::MatchingConfig& config, SimHost& host,
                 std::unique_ptr<temporal::History> history, Random& random, Log& log,
                 Metrics& metrics)
      : history_(std::move(history)),
        service_(config, "simulated:1", LoopsOf(host), host.store, *history_, random, log,
                 metrics) {}

  [[nodiscard]] std::string name() const override { return temporal::kMatchingServiceName; }
  void Register(rpc::ServiceTable& table) override { service_.Register(table); }
  void Stop(Closure done) override { service_.Stop(std::move(done)); }

 private:
  const std::unique_ptr<temporal::History> history_;
  temporal::MatchingService service_;
};

temporal::MatchingConfig ConfigFor(const Swarm& swarm, Random& random) {
  temporal::MatchingConfig config;
  config.backlog = swarm.backlog;
  config.partitions = 1 + static_cast<std::int32_t>(random.Below(kPartitions));
  config.poll_wait_max = seconds(20);
  config.poll_deadline_margin = milliseconds(random.Chance(1, 2) ? 0 : 200);
  config.sync_match_backlog_age_max = random.Chance(1, 2) ? milliseconds(100) : seconds(5);
  config.pollers_max = random.Chance(1, 3) ? 1 : 100;
  config.adds_waiting_max = random.Chance(1, 4) ? 1 : 1'000;
  config.load_wait_max = random.Chance(1, 3) ? milliseconds(50) : milliseconds(5'000);
  config.idle_unload = random.Chance(1, 3) ? seconds(1) : seconds(300);
  return config;
}

// None, a little, or a lot.
int Rate(Random& random, int a_lot) {
  const std::uint64_t lot = random.Below(4);
  return lot < 2 ? 0 : lot == 2 ? a_lot / 10 : a_lot;
}

HistoryTroubles TroublesFor(const Swarm& swarm, Random& random) {
  HistoryTroubles troubles;
  troubles.request_lost = Rate(random, 200);
  troubles.reply_lost = Rate(random, 200);
  troubles.unavailable = Rate(random, 500);
  troubles.exhausted = Rate(random, 500);
  troubles.busy_workflow = Rate(random, 300);
  troubles.handover = Rate(random, 300);
  troubles.internal = Rate(random, 100);
  troubles.slow = Rate(random, 100);
  troubles.over = Rate(random, 300);
  troubles.latency_max = swarm.faults.latency_max;
  return troubles;
}

}  // namespace

MatchingWorld::MatchingWorld(const RunOptions& options, Coverage& coverage)
    : ServerWorld(options, coverage),
      config_(ConfigFor(swarm_, swarm_random_)),
      history_(judge_, coverage_, random(), ledger_, driver_),
      troubles_(TroublesFor(swarm_, swarm_random_)) {
  history_.SetTroubles(troubles_);
  for (int queue = 0; queue < swarm_.queues; ++queue) {
    owners_.push_back(random().Below(static_cast<std::uint64_t>(swarm_.hosts)));
  }
  for (int i = 0; i < swarm_.slots * swarm_.queues; ++i) {
    workers_.push_back({.queue = i % swarm_.queues, .paused = false});
    PollLater(static_cast<std::size_t>(i), Some(seconds(1)));
  }
}

std::unique_ptr<ServedService> MatchingWorld::Serve(std::size_t host, int life) {
  temporal::MatchingConfig config = config_;
  config.backlog = DrawBacklogConfig();
  return std::make_unique<ServedMatching>(
      config, *hosts_[host], history_.ClientOn(*hosts_[host], life), random(), log_, metrics_);
}

MatchingWorld::ServerPtr MatchingWorld::ServerFor(int queue) {
  std::size_t host = owners_[static_cast<std::size_t>(queue)];
  if (acting_ && Lot(5)) host = random().Below(hosts_.size());
  return ServerOn(host);
}

bool MatchingWorld::Impatient() { return acting_ && Lot(swarm_.weight_vanish); }

std::string MatchingWorld::PartitionName(int queue) {
  const std::uint64_t partition = random().Below(static_cast<std::uint64_t>(config_.partitions));
  if (partition == 0) return QueueName(queue);
  return "/_sys/" + QueueName(queue) + "/" + std::to_string(partition);
}

void MatchingWorld::Enqueue() {
  const auto queue = static_cast<int>(random().Below(static_cast<std::uint64_t>(swarm_.queues)));
  const std::uint64_t burst = Lot(25) ? 1 + random().Below(6) : 1;
  for (std::uint64_t i = 0; i < burst && tasks_made_ < swarm_.tasks; ++i) {
    ++tasks_made_;
    Adding adding{.task = 0, .queue = queue, .life = Duration::zero()};
    if (Lot(swarm_.expiry_percent)) adding.life = milliseconds(1) + Some(swarm_.expiry_max);
    adding.task = history_.Schedule(adding.life > Duration::zero());
    ++adds_open_;
    Add(adding);
  }
  if (Lot(5)) CancelSomePoll(queue);
}

// Until it is acknowledged, or there is no need any more.
void MatchingWorld::Add(const Adding& adding) {
  const auto again = [this, adding] {
    driver_.PostAt(world_clock_.Now() + milliseconds(10) + Some(seconds(1)),
                   [this, adding] { Add(adding); });
  };
  if (history_.IsSettled(adding.task) || !working()) {
    --adds_open_;
    return;
  }
  const ServerPtr server = ServerFor(adding.queue);
  if (server == nullptr) return again();
  WallTime expiry;
  if (adding.life > Duration::zero()) expiry = server->host().clock.WallNow() + adding.life;
  const std::int64_t number = ledger_.NewTask(expiry);
  scheduler_.Trace("add", adding.task, number, server->host().number);
  matching_pb::AddWorkflowTaskRequest request;
  request.set_namespace_id(kClusterNamespace);
  request.mutable_execution()->set_workflow_id(SimWorkflowId(adding.task));
  request.mutable_execution()->set_run_id("run " + TaskMarker(number));
  request.mutable_task_queue()->set_name(PartitionName(adding.queue));
  request.mutable_task_queue()->set_kind(enums::TASK_QUEUE_KIND_NORMAL);
  request.set_scheduled_event_id(adding.task);
  request.mutable_schedule_to_start_timeout()->set_seconds(adding.life.count() / 1'000'000'000);
  request.mutable_schedule_to_start_timeout()->set_nanos(
      static_cast<int>(adding.life.count() % 1'000'000'000));
  Call(
      server, "AddWorkflowTask", request.SerializeAsString(),
      Impatient() ? Some(milliseconds(300)) : kAddTimeout,
      [this, task = adding.task, number](const rpc::RpcStatus& status, const std::string&) {
        coverage_.Reach("AddWorkflowTask answered " + std::string(rpc::CodeName(status.code)));
        if (status.ok()) return history_.AddAcknowledged(task, number);
        if (status.code == rpc::Code::kResourceExhausted) ledger_.Refused(number);
      },
      nullptr,
      [this, again](bool answered, const rpc::RpcStatus& status, const std::string&) {
        if (!answered || !status.ok()) return again();
        --adds_open_;
      });
}

void MatchingWorld::PollLater(std::size_t worker, Duration delay) {
  driver_.PostAt(world_clock_.Now() + delay, [this, worker] { Poll(worker); });
}

void MatchingWorld::Poll(std::size_t worker) {
  if (!working()) return;
  const Worker& self = workers_[worker];
  const ServerPtr server = self.paused ? nullptr : ServerFor(self.queue);
  if (server == nullptr) return PollLater(worker, milliseconds(100));
  scheduler_.Trace("poll", static_cast<std::int64_t>(worker), self.queue, server->host().number);
  matching_pb::PollWorkflowTaskQueueRequest request;
  request.set_namespace_id(kClusterNamespace);
  request.set_poller_id("p" + std::to_string(++polls_made_ % 7));
  auto& poll = *request.mutable_poll_request();
  poll.set_namespace_("space");
  poll.set_identity("w" + std::to_string(worker));
  poll.mutable_task_queue()->set_name(PartitionName(self.queue));
  poll.mutable_task_queue()->set_kind(enums::TASK_QUEUE_KIND_NORMAL);
  request.mutable_conditions()->set_no_wait(Lot(10));
  Call(
      server, "PollWorkflowTaskQueue", request.SerializeAsString(),
      Impatient() ? Some(milliseconds(300)) : Some(seconds(5)) + seconds(2),
      [this, life = server->number()](const rpc::RpcStatus& status, const std::string& response) {
        coverage_.Reach("PollWorkflowTaskQueue answered " +
                        std::string(rpc::CodeName(status.code)));
        if (status.message == kExhaustedMessage) history_.PollTurnedAway(life);
        matching_pb::PollWorkflowTaskQueueResponse reply;
        judge_.Expect(!status.ok() || reply.ParseFromString(response),
                      [] { return "an answer to a poll does not parse"; });
        if (status.ok() && !reply.task_token().empty()) {
          history_.PollGot(life, reply.task_token());
        }
      },
      nullptr,
      [this, worker](bool answered, const rpc::RpcStatus& status, const std::string&) {
        scheduler_.Trace("polled", static_cast<std::int64_t>(worker), answered ? 1 : 0,
                         static_cast<std::int64_t>(status.code));
        if (!answered) coverage_.Reach("poller gone before its answer");
        const bool ok = answered && status.ok();
        PollLater(worker, Some(ok ? swarm_.work_max : Duration(milliseconds(200))));
      });
}

void MatchingWorld::CancelSomePoll(int queue) {
  const ServerPtr server = ServerFor(queue);
  if (server == nullptr) return;
  matching_pb::CancelOutstandingPollRequest request;
  request.set_namespace_id(kClusterNamespace);
  request.set_task_queue_type(enums::TASK_QUEUE_TYPE_WORKFLOW);
  request.mutable_task_queue()->set_name(PartitionName(queue));
  request.set_poller_id("p" + std::to_string(random().Below(7)));
  Call(
      server, "CancelOutstandingPoll", request.SerializeAsString(), kAddTimeout,
      [](const rpc::RpcStatus&, const std::string&) {}, nullptr,
      [](bool, const rpc::RpcStatus&, const std::string&) {});
}

void MatchingWorld::AddSecondOwner(std::size_t host) {
  coverage_.Reach("act second owner");
  owners_[random().Below(owners_.size())] = host;
}

void MatchingWorld::PauseSomething() {
  const std::size_t worker = random().Below(workers_.size());
  coverage_.Reach("act pause work");
  workers_[worker].paused = true;
  driver_.PostAt(world_clock_.Now() + Some(seconds(10)),
                 [this, worker] { workers_[worker].paused = false; });
}

void MatchingWorld::CalmDown() {
  for (Worker& worker : workers_) worker.paused = false;
  history_.SetTroubles({});
}

void MatchingWorld::Describe(int queue, const Reply& reply) {
  const ServerPtr server = ServerFor(queue);
  judge_.Expect(server != nullptr, [] { return "a server is down though the faults ended"; });
  if (server == nullptr) return;
  matching_pb::DescribeTaskQueueRequest request;
  request.set_namespace_id(kClusterNamespace);
  auto& desc = *request.mutable_desc_request();
  desc.mutable_task_queue()->set_name(QueueName(queue));
  desc.set_task_queue_type(enums::TASK_QUEUE_TYPE_WORKFLOW);
  desc.set_report_stats(true);
  Call(
      server, "DescribeTaskQueue", request.SerializeAsString(), seconds(30),
      [](const rpc::RpcStatus&, const std::string&) {}, nullptr, reply);
}

void MatchingWorld::CheckDrained() {
  judge_.Expect(adds_open_ == 0, [this] {
    return std::to_string(adds_open_) + " tasks are not taken though the faults ended";
  });
  history_.CheckDone();
  for (int queue = 0; queue < swarm_.queues && !judge_.failed(); ++queue) {
    auto count = std::make_shared<std::int64_t>(-1);
    for (int tries = 0; tries < 10 && *count < 0 && !judge_.failed(); ++tries) {
      Describe(queue,
               [count](bool answered, const rpc::RpcStatus& status, const std::string& response) {
                 matching_pb::DescribeTaskQueueResponse reply;
                 if (!answered || !status.ok() || !reply.ParseFromString(response)) return;
                 *count = reply.desc_response().stats().approximate_backlog_count();
               });
      (void)RunSteps([count] { return *count >= 0; }, seconds(2));
    }
    judge_.Expect(*count == 0 || judge_.failed(), [count] {
      return "the backlog count of a drained queue is " + std::to_string(*count);
    });
  }
}

}  // namespace millrace::sim
