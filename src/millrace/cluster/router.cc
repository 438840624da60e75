#include "millrace/cluster/router.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::cluster {
namespace {

constexpr Duration kDeadlineMargin = std::chrono::milliseconds(100);

bool CameFromANode(const rpc::ServerCall& call) {
  const rpc::Metadata& metadata = call.metadata();
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& field) { return field.first == kPassedOnBy; });
}

// The connection broke, or was given up: nobody said what became of the call.
bool Broke(const rpc::CallResult& result) {
  return (result.status.code == rpc::Code::kUnavailable ||
          result.status.code == rpc::Code::kCancelled) &&
         result.status.details.empty();
}

}  // namespace

// One method of the service behind the router.
struct Router::Route {
  std::string path;
  CallRules rules;
  rpc::UnaryHandler handler;
};

// One call on its way. Thread: one at a time, whoever has it in hand; `call` as ServerCall says.
struct Router::RoutedCall {
  Route* route = nullptr;
  std::unique_ptr<rpc::ServerCall> call;
  std::string queue;
  bool from_node = false;
  Instant began;
  Instant last_try;
  // Set by the first try that failed.
  int tries = 0;       // In a row, each soon after the other.
  Instant give_up;     // Waits no longer than this.
  Instant poll_until;  // Of a Lease call: its wait for a task.
  bool retried = false;
};

// The call as the handler of this node sees it. A reply that turns it away goes back to the router.
class Router::LocalCall final : public rpc::ServerCall {
 public:
  LocalCall(Router& router, RoutedPtr routed) : router_(router), routed_(std::move(routed)) {
    if (routed_->retried && routed_->route->rules.leases) {
      request_ = router_.RequestOf(*routed_);
    }
  }

  [[nodiscard]] std::string_view request() const override {
    return request_.empty() ? routed_->call->request() : std::string_view(request_);
  }
  [[nodiscard]] bool request_compressed() const override {
    return routed_->call->request_compressed();
  }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return routed_->call->metadata(); }
  [[nodiscard]] Instant deadline() const override { return routed_->call->deadline(); }
  [[nodiscard]] std::string_view peer() const override { return routed_->call->peer(); }
  void OnCancel(Closure on_cancel) override { routed_->call->OnCancel(std::move(on_cancel)); }
  [[nodiscard]] bool cancelled() const override { return routed_->call->cancelled(); }
  void AddHeader(std::string name, std::string value) override {
    routed_->call->AddHeader(std::move(name), std::move(value));
  }
  void AddTrailer(std::string name, std::string value) override {
    routed_->call->AddTrailer(std::move(name), std::move(value));
  }
  void CompressResponse() override { routed_->call->CompressResponse(); }
  void Finish(rpc::RpcStatus status, std::string response) override {
    const RoutedPtr routed = std::move(routed_);
    if (IsTurnedAway(status)) return router_.Again(routed);
    // Read from what was this node's when the call came, and may have become another's meanwhile.
    if (status.ok() && routed->route->rules.repeatable &&
        !router_.view()->MayLease(router_.home_.clock().Now())) {
      return router_.Again(routed);
    }
    routed->call->Finish(std::move(status), std::move(response));
  }

 private:
  Router& router_;
  RoutedPtr routed_;
  std::string request_;
};

// A call about all queues: what this node's handler answers, with what others have in memory put
// in.
class Router::ListCall final : public rpc::ServerCall {
 public:
  ListCall(Router& router, Route& route, std::unique_ptr<rpc::ServerCall> call)
      : router_(router), route_(route), call_(std::move(call)) {}

  [[nodiscard]] std::string_view request() const override { return call_->request(); }
  [[nodiscard]] const rpc::Metadata& metadata() const override { return call_->metadata(); }
  [[nodiscard]] Instant deadline() const override { return call_->deadline(); }
  [[nodiscard]] std::string_view peer() const override { return call_->peer(); }
  void OnCancel(Closure on_cancel) override { call_->OnCancel(std::move(on_cancel)); }
  [[nodiscard]] bool cancelled() const override { return call_->cancelled(); }
  void AddTrailer(std::string name, std::string value) override {
    call_->AddTrailer(std::move(name), std::move(value));
  }

  void Finish(rpc::RpcStatus status, std::string response) override {
    struct Gathering {
      Mutex mutex;
      std::unique_ptr<rpc::ServerCall> call;
      std::string response;
      std::size_t open = 1;  // Answers to come, and one until all were asked for.

      void Add(std::string_view other) {
        {
          MutexLock lock(mutex);
          if (!other.empty()) response = MergeLists(std::move(response), other);
          if (--open > 0) return;
        }
        call->FinishOk(std::move(response));
      }
    };
    if (!status.ok()) return call_->Finish(std::move(status), std::move(response));
    const ViewPtr view = router_.view();
    const Instant deadline =
        std::min(call_->deadline(), router_.home_.clock().Now() + router_.config_.list_timeout);
    const std::string request(call_->request());
    auto gathering = std::make_shared<Gathering>();
    gathering->call = std::move(call_);
    gathering->response = std::move(response);
    for (const store::NodeRow& node : view->nodes) {
      if (node.id == router_.self_) continue;
      exec::Gate::Holder hold = router_.gate_.TryEnter();
      if (!hold) break;
      {
        MutexLock lock(gathering->mutex);
        ++gathering->open;
      }
      router_.peers_.Call(node, route_.path, request, deadline,
                          [gathering, hold = std::move(hold)](const rpc::CallResult& result) {
                            gathering->Add(result.response);
                          });
    }
    gathering->Add({});
  }

 private:
  Router& router_;
  Route& route_;
  std::unique_ptr<rpc::ServerCall> call_;
};

Router::Router(std::string self, const RouterConfig& config, exec::Executor& home, Peers& peers,
               Random& random, Metrics& metrics, Nudge nudge)
    : self_(std::move(self)),
      config_(config),
      home_(home),
      peers_(peers),
      random_(random),
      nudge_(std::move(nudge)),
      passed_on_(metrics.GetCounter("millrace_node_calls_passed_on_total",
                                    "Calls passed on to the node that owns their queue.")),
      turned_away_(metrics.GetCounter("millrace_node_calls_turned_away_total",
                                      "Calls refused because no owner was there in time.")),
      unknown_(metrics.GetCounter("millrace_node_calls_unknown_total",
                                  "Calls passed on whose connection broke before the answer.")),
      waited_(metrics.GetCounter("millrace_node_calls_waited_total",
                                 "Calls that waited for their queue's owner.")),
      view_(std::make_shared<const View>()) {}

Router::~Router() {
  MutexLock lock(mutex_);
  MR_CHECK(waiting_.empty());
}

void Router::Wrap(rpc::ServiceTable& table) {
  for (auto& [path, handler] : table.unary) {
    const std::optional<CallRules> rules = RulesOf(path);
    if (!rules) continue;
    routes_.push_back(std::make_unique<Route>(Route{path, *rules, std::move(handler)}));
    Route& route = *routes_.back();
    if (rules->kind == CallKind::kAllQueues) {
      handler = [this, &route](std::unique_ptr<rpc::ServerCall> call) {
        BeginList(route, std::move(call));
      };
    } else {
      handler = [this, &route](std::unique_ptr<rpc::ServerCall> call) {
        Begin(route, std::move(call));
      };
    }
  }
}

ViewPtr Router::view() {
  MutexLock lock(mutex_);
  return view_;
}

bool Router::draining() {
  MutexLock lock(mutex_);
  return draining_;
}

void Router::BeginList(Route& route, std::unique_ptr<rpc::ServerCall> call) {
  if (CameFromANode(*call)) return route.handler(std::move(call));
  route.handler(std::make_unique<ListCall>(*this, route, std::move(call)));
}

void Router::Begin(Route& route, std::unique_ptr<rpc::ServerCall> call) {
  std::string queue(QueueOf(call->request()));
  // What is wrong with it is said here.
  if (queue.empty()) return route.handler(std::move(call));
  auto routed = std::make_shared<RoutedCall>();
  routed->route = &route;
  routed->from_node = CameFromANode(*call);
  routed->queue = std::move(queue);
  routed->began = home_.clock().Now();
  routed->call = std::move(call);
  Try(routed);
}

std::string Router::RequestOf(const RoutedCall& call) const {
  const std::string_view request = call.call->request();
  if (!call.retried || !call.route->rules.leases) return std::string(request);
  return WithWait(request, call.poll_until - home_.clock().Now());
}

void Router::Try(const RoutedPtr& call) {
  const Instant now = home_.clock().Now();
  if (call->call->cancelled()) {
    return call->call->Finish({rpc::Code::kCancelled, "cancelled by the caller", {}}, {});
  }
  const bool leases = call->route->rules.leases;
  // A Lease call waits for an owner even if its wait for a task is over: "no task" is the owner's
  // word.
  if (call->retried && now >= call->give_up) return TurnAway(call);
  call->last_try = now;
  const ViewPtr view = this->view();
  const std::string* owner = view->members->OwnerOf(call->queue);
  if (owner == nullptr) return draining() ? TurnAway(call) : Again(call);
  if (*owner == self_) {
    // What is in memory may have become another's while this node was not heard of.
    if (!call->route->rules.judged_by_store && !view->MayLease(now)) return Again(call);
    return Here(call);
  }
  if (call->from_node && !MR_MUTANT(passed_on_again)) {
    nudge_();
    return TurnAway(call);
  }
  if (leases && draining()) return TurnAway(call);
  const store::NodeRow* node = view->Find(*owner);
  if (node == nullptr) return Again(call);
  PassOn(call, *node);
}

void Router::Here(const RoutedPtr& call) {
  call->route->handler(std::make_unique<LocalCall>(*this, call));
}

void Router::PassOn(const RoutedPtr& call, const store::NodeRow& owner) {
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return TurnAway(call);
  passed_on_.Increment();
  WaitId poll = 0;
  if (call->route->rules.leases) {
    MutexLock lock(mutex_);
    poll = ++last_id_;
  }
  const Peers::CallId id =
      peers_.Call(owner, call->route->path, RequestOf(*call), call->call->deadline(),
                  [this, call, poll, hold = std::move(hold)](rpc::CallResult result) {
                    if (poll != 0) {
                      MutexLock lock(mutex_);
                      polls_.erase(poll);
                    }
                    OnPassedOnEnded(call, std::move(result));
                  });
  // The callback above cannot have run yet: it comes on this thread.
  if (poll != 0) {
    bool late = false;
    {
      MutexLock lock(mutex_);
      late = draining_;
      if (!late) polls_.emplace(poll, id);
    }
    if (late) peers_.Cancel(id);
  }
  call->call->OnCancel([this, id] { peers_.Cancel(id); });
}

void Router::OnPassedOnEnded(const RoutedPtr& call, rpc::CallResult result) {
  if (IsTurnedAway(result.status)) {
    nudge_();
    return Again(call);
  }
  if (!Broke(result) || call->call->cancelled()) {
    return call->call->Finish(std::move(result.status), std::move(result.response));
  }
  if (result.never_sent || call->route->rules.repeatable || MR_MUTANT(unknown_outcome_repeated)) {
    return Again(call);
  }
  unknown_.Increment();
  call->call->Finish(OutcomeUnknown("the node that owns the queue went away before it answered: " +
                                    result.status.message),
                     {});
}

void Router::Again(const RoutedPtr& call) {
  const Instant now = home_.clock().Now();
  const bool leases = call->route->rules.leases;
  const Instant deadline = call->call->deadline();
  const Instant last_chance = deadline == Instant::Max() ? deadline : deadline - kDeadlineMargin;
  if (!call->retried) {
    waited_.Increment();
    if (leases) {
      const Duration asked = WaitOf(call->call->request()).value_or(config_.poll_wait_max);
      call->poll_until =
          std::min(call->began + std::min(asked, config_.poll_wait_max), last_chance);
    }
  }
  // One that was served for a while before it was turned away has patience anew.
  if (!call->retried || now - call->last_try > config_.patience / 10) {
    call->tries = 0;
    call->give_up = std::min(now + config_.patience, last_chance);
  }
  call->retried = true;
  const int doublings = std::min(call->tries++, 10);
  Duration delay = std::min(config_.retry_min * (1 << doublings), config_.retry_max);
  delay -= Duration(
      static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(delay.count() / 2 + 1))));
  const Instant when = std::min(now + delay, call->give_up);

  exec::Gate::Holder hold = gate_.TryEnter();
  WaitId id = 0;
  if (hold) {
    MutexLock lock(mutex_);
    id = ++last_id_;
  }
  if (id != 0) {
    // Before others can take it in hand, since they say anew what cancelling does. A call that is
    // cancelled meanwhile is noticed at the next try.
    call->call->OnCancel([this, id] {
      if (const RoutedPtr taken = TakeWaiting(id)) {
        taken->call->Finish({rpc::Code::kCancelled, "cancelled by the caller", {}}, {});
      }
    });
    MutexLock lock(mutex_);
    const bool refused =
        stopped_ || (draining_ && leases) || waiting_.size() >= config_.waiting_max;
    if (refused) {
      id = 0;
    } else {
      waiting_.emplace(id, call);
    }
  }
  if (id == 0) return TurnAway(call);
  home_.PostAt(when, [this, id, hold = std::move(hold)] {
    if (const RoutedPtr taken = TakeWaiting(id)) Try(taken);
  });
}

Router::RoutedPtr Router::TakeWaiting(WaitId id) {
  MutexLock lock(mutex_);
  auto node = waiting_.extract(id);
  return node.empty() ? nullptr : std::move(node.mapped());
}

std::vector<Router::RoutedPtr> Router::TakeAllWaiting(bool only_leases) {
  MutexLock lock(mutex_);
  std::vector<RoutedPtr> taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (only_leases && !it->second->route->rules.leases) {
      ++it;
    } else {
      taken.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
  }
  return taken;
}

void Router::TurnAway(const RoutedPtr& call) {
  turned_away_.Increment();
  call->call->Finish(
      TurnedAway(call->from_node ? "this node does not own the queue"
                                 : "the queue is moving from node to node; try again"),
      {});
}

void Router::OnView(ViewPtr view, bool changed) {
  peers_.Keep(view->nodes);
  {
    MutexLock lock(mutex_);
    view_ = std::move(view);
  }
  if (!changed) return;
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return;
  home_.Post([this, taken = TakeAllWaiting(/*only_leases=*/false), hold = std::move(hold)] {
    for (const RoutedPtr& call : taken) Try(call);
  });
}

void Router::BeginDrain() {
  std::map<WaitId, Peers::CallId> polls;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    polls.swap(polls_);
  }
  for (const auto& [id, call] : polls) peers_.Cancel(call);
  for (const RoutedPtr& call : TakeAllWaiting(/*only_leases=*/true)) TurnAway(call);
}

void Router::Stop(Closure done) {
  {
    MutexLock lock(mutex_);
    draining_ = true;
    stopped_ = true;
  }
  for (const RoutedPtr& call : TakeAllWaiting(/*only_leases=*/false)) TurnAway(call);
  gate_.Close(std::move(done));
}

}  // namespace millrace::cluster
