#include "millrace/sim_world/queue_world.h"

#include <millrace/v1/queue.pb.h>

#include <algorithm>
#include <utility>

#include "millrace/queue/queue_service.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSettleTriesMax = 6;

void SetDuration(google::protobuf::Duration* out, Duration d) {
  out->set_seconds(d.count() / 1'000'000'000);
  out->set_nanos(static_cast<int>(d.count() % 1'000'000'000));
}

queue::QueueConfig ConfigFor(const Swarm& swarm, Random& random) {
  queue::QueueConfig config;
  config.backlog = swarm.backlog;
  config.lease_duration_min = milliseconds(1);
  config.poll_wait_max = seconds(20);
  config.poll_deadline_margin = milliseconds(random.Chance(1, 2) ? 0 : 200);
  config.pollers_max = random.Chance(1, 3) ? 1 : 100;
  config.leases_max = random.Chance(1, 3) ? 1 + random.Below(3) : 1'000;
  config.rewrites_in_flight_max = random.Chance(1, 3) ? 1 : 100;
  config.held_calls_max = random.Chance(1, 4) ? 1 : 1'000;
  config.load_wait_max = random.Chance(1, 3) ? milliseconds(50) : milliseconds(5'000);
  config.idle_unload = random.Chance(1, 3) ? seconds(1) : seconds(300);
  config.peek_scan_rows_max = random.Chance(1, 2) ? 1 + random.Below(3) : 1'000;
  config.items_per_request_max = 8;
  return config;
}

class ServedQueues final : public ServedService {
 public:
  ServedQueues(const queue::QueueConfig& config, SimHost& host, Random& random, Log& log,
               Metrics& metrics)
      : service_(config, LoopsOf(host), host.store, random, log, metrics) {}

  [[nodiscard]] std::string name() const override { return std::string(queue::kQueueServiceName); }
  void Register(rpc::ServiceTable& table) override { service_.Register(table); }
  void Stop(Closure done) override { service_.Stop(std::move(done)); }

 private:
  queue::QueueService service_;
};

}  // namespace

QueueWorld::QueueWorld(const RunOptions& options, Coverage& coverage)
    : ServerWorld(options, coverage),
      config_(ConfigFor(swarm_, swarm_random_)),
      checker_(scheduler_, judge_, coverage_, ledger_, durable_) {
  for (int i = 0; i < swarm_.slots * swarm_.queues; ++i) {
    workers_.push_back({.queue = i % swarm_.queues,
                        .host = random().Below(static_cast<std::uint64_t>(swarm_.hosts)),
                        .paused = false});
    PollLater(static_cast<std::size_t>(i), Some(seconds(1)));
  }
}

std::unique_ptr<ServedService> QueueWorld::Serve(std::size_t host, int /*life*/) {
  queue::QueueConfig config = config_;
  config.backlog = DrawBacklogConfig();
  return std::make_unique<ServedQueues>(config, *hosts_[host], random(), log_, metrics_);
}

QueueWorld::ServerPtr QueueWorld::AnyServer() {
  std::vector<ServerPtr> up;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (ServerPtr server = ServerOn(i)) up.push_back(std::move(server));
  }
  return up.empty() ? nullptr : up[random().Below(up.size())];
}

Duration QueueWorld::Patience() {
  // Now and then less than the answer takes.
  return Lot(swarm_.weight_vanish) && acting_ ? Some(milliseconds(300)) : seconds(30);
}

void QueueWorld::Enqueue() {
  const ServerPtr server = AnyServer();
  if (server == nullptr) return;
  const auto queue = static_cast<int>(random().Below(static_cast<std::uint64_t>(swarm_.queues)));
  v1::EnqueueRequest request;
  request.set_queue(QueueName(queue));
  std::vector<std::int64_t> tasks;
  const std::uint64_t burst = Lot(25) ? 1 + random().Below(6) : 1;
  for (std::uint64_t i = 0; i < burst && tasks_made_ < swarm_.tasks; ++i) {
    ++tasks_made_;
    v1::NewTask* task = request.add_tasks();
    WallTime expiry;
    if (Lot(swarm_.expiry_percent)) {
      const Duration ttl = milliseconds(1) + Some(swarm_.expiry_max);
      SetDuration(task->mutable_time_to_live(), ttl);
      // The server adds it to its own clock, somewhat later than now.
      expiry = server->host().clock.WallNow() + ttl;
    }
    const std::int64_t number = ledger_.NewTask(expiry);
    tasks.push_back(number);
    task->set_payload(
        std::string(random().Below(static_cast<std::uint64_t>(swarm_.payload_max) + 1), 'p') +
        TaskMarker(number));
    task->set_max_attempts(Lot(30) ? 1 + static_cast<int>(random().Below(4)) : 0);
    scheduler_.Trace("enqueue", number, queue, server->host().number);
  }
  const Duration patience = Patience();
  if (patience < seconds(1)) coverage_.Reach("producer vanishes");
  Call(
      server, "Enqueue", request.SerializeAsString(), patience,
      [this, tasks](const rpc::RpcStatus& status, const std::string& response) {
        checker_.OnEnqueueAnswered(tasks, status, response);
      },
      nullptr, [](bool, const rpc::RpcStatus&, const std::string&) {});
  if (Lot(10)) LookAround();
}

void QueueWorld::PollLater(std::size_t worker, Duration delay) {
  driver_.PostAt(world_clock_.Now() + delay, [this, worker] { Poll(worker); });
}

void QueueWorld::Poll(std::size_t worker) {
  if (!working()) return;
  Worker& self = workers_[worker];
  // In the safety phase clients wander, and owners fight; afterwards they are routed to one owner
  // for each queue.
  if (!acting_) self.host = static_cast<std::size_t>(self.queue) % hosts_.size();
  if (acting_ && Lot(5)) self.host = random().Below(hosts_.size());
  const ServerPtr server = ServerOn(self.host);
  if (server == nullptr || self.paused) {
    if (!self.paused) self.host = random().Below(hosts_.size());
    return PollLater(worker, milliseconds(100));
  }
  v1::LeaseRequest request;
  request.set_queue(QueueName(self.queue));
  request.set_max_tasks(1 + static_cast<int>(random().Below(3)));
  request.set_worker_id("w" + std::to_string(worker));
  const bool impatient = acting_ && Lot(swarm_.weight_vanish);
  SetDuration(request.mutable_lease_duration(),
              impatient ? milliseconds(1) + Some(seconds(1)) : seconds(5));
  if (Lot(50))
    SetDuration(request.mutable_wait_time(), Lot(50) ? Duration::zero() : Some(seconds(3)));
  Call(
      server, "Lease", request.SerializeAsString(), Patience(),
      [this, key = Key(self.queue), life = server->number()](const rpc::RpcStatus& status,
                                                             const std::string& response) {
        checker_.OnLeaseAnswered(key, life, status, response);
      },
      nullptr,
      [this, worker](bool answered, const rpc::RpcStatus& status, const std::string& response) {
        v1::LeaseResponse reply;
        if (!answered || !status.ok() || !reply.ParseFromString(response)) {
          if (!answered) coverage_.Reach("poller gone before its answer");
          return PollLater(worker, Some(milliseconds(200)));
        }
        for (const v1::LeasedTask& task : reply.tasks()) {
          Work(worker, {.token = task.lease_token(),
                        .attempt = task.attempt(),
                        .max_attempts = task.max_attempts(),
                        .tries = 0});
        }
        PollLater(worker,
                  Some(reply.tasks_size() > 0 ? swarm_.work_max : Duration(milliseconds(20))));
      });
}

void QueueWorld::Work(std::size_t worker, Held held) {
  driver_.PostAt(world_clock_.Now() + Some(swarm_.work_max),
                 [this, worker, held = std::move(held)]() mutable {
                   if (acting_ && Lot(swarm_.weight_vanish / 2)) {
                     coverage_.Reach("worker vanishes with a lease");
                     return;
                   }
                   if (Lot(10)) {
                     Settle(worker, SettleKind::kExtend, false, held);
                     return;
                   }
                   const bool trouble = acting_ ? Lot(25) : Lot(5);
                   if (!trouble)
                     return Settle(worker, SettleKind::kComplete, false, std::move(held));
                   if (Lot(50)) return Settle(worker, SettleKind::kRelease, false, std::move(held));
                   Settle(worker, SettleKind::kFail, Lot(20), std::move(held));
                 });
}

void QueueWorld::Settle(std::size_t worker, SettleKind kind, bool permanent, Held held) {
  const ServerPtr server = ServerOn(workers_[worker].host);
  if (server == nullptr) {
    if (++held.tries <= kSettleTriesMax) {
      driver_.PostAt(world_clock_.Now() + Some(seconds(1)),
                     [this, worker, kind, permanent, held = std::move(held)] {
                       Settle(worker, kind, permanent, held);
                     });
    }
    return;
  }
  const std::string name = QueueName(workers_[worker].queue);
  const Duration extend_by = seconds(2) + Some(seconds(3));
  std::string bytes;
  if (kind == SettleKind::kFail) {
    v1::FailRequest request;
    request.set_queue(name);
    v1::FailItem* item = request.add_items();
    item->set_lease_token(held.token);
    item->set_permanent(permanent);
    item->set_error_message("simulated");
    bytes = request.SerializeAsString();
  } else if (kind == SettleKind::kExtend) {
    v1::ExtendRequest request;
    request.set_queue(name);
    request.add_lease_tokens(held.token);
    SetDuration(request.mutable_lease_duration(), extend_by);
    bytes = request.SerializeAsString();
  } else {
    v1::CompleteRequest request;  // Release has the same shape.
    request.set_queue(name);
    request.add_lease_tokens(held.token);
    bytes = request.SerializeAsString();
  }
  const bool for_good =
      kind == SettleKind::kComplete ||
      (kind == SettleKind::kFail &&
       (permanent || (held.max_attempts > 0 && held.attempt >= held.max_attempts)));
  const std::vector<std::string> tokens = {held.token};
  checker_.OnSettleSent(held.token, for_good);
  Call(
      server, std::string(SettleKindName(kind)), std::move(bytes), Patience(),
      [this, kind, tokens, extend_by, key = Key(workers_[worker].queue), life = server->number()](
          const rpc::RpcStatus& status, const std::string& response) {
        checker_.OnSettleAnswered(kind, key, life, tokens, extend_by, status, response);
      },
      [this, tokens] { checker_.OnSettleLost(tokens); },
      [this, worker, kind, permanent, held](bool answered, const rpc::RpcStatus& status,
                                            const std::string& response) {
        v1::CompleteResponse reply;
        const bool ok = answered && status.ok() && reply.ParseFromString(response) &&
                        reply.results_size() == 1 && !reply.results(0).has_error();
        Held again = held;
        if (kind == SettleKind::kExtend) return Work(worker, std::move(again));
        const bool lost =
            answered && status.ok() && !ok && reply.results(0).error().reason() == "LEASE_LOST";
        if (lost) return;
        // Retries after trouble, and now and then a call too many: the token is used up then.
        if (ok && !Lot(10)) return;
        if (ok) coverage_.Reach("used token tried again");
        if (++again.tries > kSettleTriesMax) return;
        driver_.PostAt(
            world_clock_.Now() + Some(milliseconds(500)),
            [this, worker, kind, permanent, again] { Settle(worker, kind, permanent, again); });
      });
}

void QueueWorld::Describe(int queue, const ServerPtr& server, Reply reply) {
  v1::DescribeRequest request;
  request.set_queue(QueueName(queue));
  Call(
      server, "Describe", request.SerializeAsString(), seconds(30),
      [this](const rpc::RpcStatus& status, const std::string& response) {
        checker_.OnDescribeAnswered(status, response);
      },
      nullptr, std::move(reply));
}

void QueueWorld::LookAround() {
  const ServerPtr server = AnyServer();
  if (server == nullptr) return;
  const auto queue = static_cast<int>(random().Below(static_cast<std::uint64_t>(swarm_.queues)));
  const Reply ignore = [](bool, const rpc::RpcStatus&, const std::string&) {};
  Describe(queue, server, ignore);
  v1::EnqueueRequest malformed;
  malformed.set_queue(Lot(50) ? QueueName(queue) : std::string());
  Call(
      server, "Enqueue", malformed.SerializeAsString(), seconds(30),
      [this](const rpc::RpcStatus& status, const std::string&) {
        judge_.Expect(status.code == rpc::Code::kInvalidArgument,
                      [] { return "a malformed request was not refused as such"; });
      },
      nullptr, ignore);
  v1::PeekRequest peek;
  peek.set_queue(QueueName(queue));
  peek.set_state(static_cast<v1::TaskState>(random().Below(4)));
  peek.set_page_size(1 + static_cast<int>(random().Below(5)));
  Call(
      server, "Peek", peek.SerializeAsString(), seconds(30),
      [this](const rpc::RpcStatus& status, const std::string& response) {
        coverage_.Reach("Peek answered " + std::string(rpc::CodeName(status.code)) + " " +
                        ReasonOf(status));
        v1::PeekResponse reply;
        judge_.Expect(!status.ok() || reply.ParseFromString(response),
                      [] { return "an answer to Peek does not parse"; });
        for (const v1::Task& task : reply.tasks()) {
          judge_.Expect(!task.task_id().empty(), [] { return "Peek shows a task without an id"; });
        }
      },
      nullptr, ignore);
  v1::ListRequest list;
  list.set_page_size(1 + static_cast<int>(random().Below(3)));
  Call(
      server, "List", list.SerializeAsString(), seconds(30),
      [this](const rpc::RpcStatus& status, const std::string&) {
        coverage_.Reach("List answered " + std::string(rpc::CodeName(status.code)) + " " +
                        ReasonOf(status));
      },
      nullptr, ignore);
}

void QueueWorld::AddSecondOwner(std::size_t host) {
  // Clients move between hosts; some move now, all at once.
  coverage_.Reach("act second owner");
  for (Worker& worker : workers_) {
    if (Lot(50)) worker.host = host;
  }
}

void QueueWorld::PauseSomething() {
  const std::size_t worker = random().Below(workers_.size());
  coverage_.Reach("act pause work");
  workers_[worker].paused = true;
  driver_.PostAt(world_clock_.Now() + Some(seconds(10)),
                 [this, worker] { workers_[worker].paused = false; });
}

void QueueWorld::CalmDown() {
  for (Worker& worker : workers_) worker.paused = false;
}

void QueueWorld::CheckDrained() {
  struct Sum {
    int answers = 0;
    std::int64_t accepted = 0;
    std::int64_t ended = 0;
    std::int64_t open = 0;
  };
  auto sum = std::make_shared<Sum>();
  const Reply on_reply = [sum](bool answered, const rpc::RpcStatus& status,
                               const std::string& response) {
    v1::DescribeResponse reply;
    // A queue that was never used is not found, and counts nothing.
    if (answered && (status.ok() || status.code == rpc::Code::kNotFound)) ++sum->answers;
    if (!answered || !status.ok() || !reply.ParseFromString(response)) return;
    const v1::QueueCounts& c = reply.queue().counts();
    sum->accepted += c.accepted();
    sum->ended += c.done() + c.dead() + c.dropped();
    sum->open += c.waiting() + c.leased();
  };
  // One after the other; a queue may be on its way out or in, which is told by an error.
  for (int queue = 0; queue < swarm_.queues; ++queue) {
    for (int tries = 0; tries < 10 && sum->answers == queue && !judge_.failed(); ++tries) {
      const ServerPtr server = ServerOn(static_cast<std::size_t>(queue) % hosts_.size());
      judge_.Expect(server != nullptr, [] { return "a server is down though the faults ended"; });
      if (server == nullptr) return;
      Describe(queue, server, on_reply);
      (void)RunSteps([sum, queue] { return sum->answers > queue; }, seconds(2));
    }
  }
  if (judge_.failed()) return;
  const TaskLedger::Counts counts = ledger_.counts();
  judge_.Expect(sum->answers == swarm_.queues,
                [] { return "Describe fails after the faults ended"; });
  judge_.Expect(
      sum->open == 0 && sum->accepted == counts.stored_ever && sum->ended == counts.gone, [&] {
        return "the counts of drained queues are wrong: accepted " + std::to_string(sum->accepted) +
               " (stored " + std::to_string(counts.stored_ever) + "), ended " +
               std::to_string(sum->ended) + " (gone " + std::to_string(counts.gone) + "), open " +
               std::to_string(sum->open);
      });
}

}  // namespace millrace::sim
