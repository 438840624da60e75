#include "millrace/rpc/server.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "millrace/base/annotations.h"
#include "millrace/base/check.h"
#include "millrace/base/mutex.h"
#include "millrace/base/random.h"
#include "millrace/rpc/health.h"
#include "millrace/rpc/listener.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/reflection.h"
#include "millrace/rpc/server_connection.h"
#include "millrace/rpc/tls_credentials.h"
#include "millrace/rpc/tls_reloader.h"

namespace millrace::rpc {
namespace {

// Counts down to zero for a thread that waits. Thread: any.
class Latch {
 public:
  explicit Latch(std::size_t count) : count_(count) {}
  void CountDown() MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (--count_ == 0) zero_.NotifyAll();
  }
  void Wait() MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (count_ > 0) zero_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar zero_;
  std::size_t count_ MR_GUARDED_BY(mutex_);
};

// One loop's share of the work. Thread: that loop's once started.
struct LoopShare {
  LoopShare(exec::EventLoop& l, std::size_t i) : loop(l), index(i) {}
  exec::EventLoop& loop;
  const std::size_t index;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::map<std::uint64_t, std::unique_ptr<ServerConnection>> connections;
  bool draining = false;
};

class ServerImpl final : public Server {
 public:
  ServerImpl(const std::vector<exec::EventLoop*>& loops, ServerOptions options,
             ServiceTable services, Log& log, Metrics& metrics)
      : options_(std::move(options)),
        health_(AllServices(services)),
        methods_(WithOwnServices(std::move(services)), metrics),
        log_(log),
        open_gauge_(metrics.GetGauge("millrace_rpc_server_connections", "Connections open.")),
        refused_(metrics.GetCounter("millrace_rpc_server_connections_refused_total",
                                    "Connections closed at once because the limit was reached.")) {
    MR_CHECK(!loops.empty());
    for (exec::EventLoop* loop : loops) {
      shares_.push_back(std::make_unique<LoopShare>(*loop, shares_.size()));
      open_per_share_.push_back(0);
    }
  }

  ~ServerImpl() override {
    if (!stopped_) Shutdown(Duration::zero());
  }

  Status Start() override {
    MR_CHECK(!started_);
    if (options_.listen.empty()) {
      return {StatusCode::kInvalidArgument, "no address to listen at"};
    }
    MR_RETURN_IF_ERROR(LoadTls());
    for (const std::string& address : options_.listen) {
      const Status opened = Listen(address);
      if (opened.ok()) continue;
      for (const auto& share : shares_) share->listeners.clear();
      addresses_.clear();
      return opened;
    }
    started_ = true;
    OnEveryLoop([this](LoopShare& share) {
      for (const auto& listener : share.listeners) {
        listener->Start([this, &share](int fd, std::string peer) {
          OnAccept(share.index, fd, std::move(peer));
        });
      }
    });
    if (reloader_ != nullptr) reloader_->Start();
    return OkStatus();
  }

  [[nodiscard]] std::vector<std::string> addresses() const override { return addresses_; }

  void ReloadTls() override {
    if (reloader_ != nullptr) reloader_->CheckSoon();
  }

  void SetServing(bool serving) override { health_.SetServing(serving); }

  void Shutdown(Duration grace) override {
    if (stopped_) return;
    stopped_ = true;
    health_.SetServing(false);
    if (!started_) return;
    health_.EndWatches();
    OnEveryLoop([](LoopShare& share) {
      share.listeners.clear();
      share.draining = true;
      for (const auto& [id, connection] : share.connections) connection->Drain();
    });
    if (!WaitForConnections(grace)) {
      OnEveryLoop([](LoopShare& share) {
        for (const auto& [id, connection] : share.connections) {
          connection->Abort("the server is shutting down");
        }
      });
      WaitForConnections(Duration::max());
    }
    // The loops may still be inside the closure that said so.
    OnEveryLoop([](LoopShare&) {});
  }

 private:
  static std::vector<std::string> AllServices(const ServiceTable& table) {
    std::vector<std::string> services = table.services;
    services.insert(services.end(), {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                     "grpc.reflection.v1alpha.ServerReflection"});
    return services;
  }

  static bool HasMethods(const ServiceTable& table, const std::string& service) {
    const std::string prefix = "/" + service + "/";
    const auto unary = table.unary.lower_bound(prefix);
    const auto streaming = table.streaming.lower_bound(prefix);
    return (unary != table.unary.end() && unary->first.starts_with(prefix)) ||
           (streaming != table.streaming.end() && streaming->first.starts_with(prefix));
  }

  ServiceTable WithOwnServices(ServiceTable table) {
    std::erase_if(table.services, [&](const auto& name) { return !HasMethods(table, name); });
    health_.AddTo(&table);
    AddReflection(AllServices(table), &table);
    return table;
  }

  Status LoadTls() {
    if (!options_.tls) return OkStatus();
    credentials_ = std::make_unique<TlsCredentials>(*options_.tls);
    const auto loaded = credentials_->Refresh();
    if (!loaded.ok()) return loaded.status();
    reloader_ = std::make_unique<TlsReloader>(*credentials_, options_.tls->reload_interval, log_);
    return OkStatus();
  }

  // Null = plain text.
  [[nodiscard]] TlsContext TlsFor(std::string_view peer) const {
    if (credentials_ == nullptr || peer.starts_with("unix:")) return nullptr;
    return credentials_->Current();
  }

  // On every loop if the kernel can share the address among them, else on the first one, which
  // hands connections on.
  Status Listen(const std::string& address) {
    const bool share = options_.reuse_port && shares_.size() > 1;
    auto first = std::make_unique<Listener>(shares_.front()->loop, log_);
    MR_RETURN_IF_ERROR(
        first->Open(address, share ? Listener::Sharing::kFirst : Listener::Sharing::kAlone));
    std::vector<std::unique_ptr<Listener>> siblings;
    for (std::size_t i = 1; i < shares_.size() && share && !first->is_unix(); ++i) {
      auto sibling = std::make_unique<Listener>(shares_[i]->loop, log_);
      const Status opened = sibling->Open(first->address(), Listener::Sharing::kSibling);
      if (!opened.ok()) {
        log_.Write(LogLevel::kInfo, "rpc", "one loop accepts for all",
                   {{"address", first->address()}, {"reason", opened.message()}});
        siblings.clear();
        break;
      }
      siblings.push_back(std::move(sibling));
    }
    addresses_.push_back(first->address());
    shares_.front()->listeners.push_back(std::move(first));
    for (std::size_t i = 0; i < siblings.size(); ++i) {
      shares_[i + 1]->listeners.push_back(std::move(siblings[i]));
    }
    return OkStatus();
  }

  // Runs `body` on each loop and waits until it ran on all.
  template <typename Body>
  void OnEveryLoop(Body body) {
    Latch latch(shares_.size());
    for (const auto& share : shares_) {
      MR_CHECK(!share->loop.InLoopThread());
      share->loop.Post([&body, &latch, &share] {
        body(*share);
        latch.CountDown();
      });
    }
    latch.Wait();
  }

  // True once no connection is left; false when `limit` has passed before.
  bool WaitForConnections(Duration limit) MR_EXCLUDES(mutex_) {
    const SystemClock clock;
    const Instant end = limit == Duration::max() ? Instant::Max() : clock.Now() + limit;
    MutexLock lock(mutex_);
    while (open_total_ > 0) {
      if (end == Instant::Max()) {
        none_open_.Wait(mutex_);
        continue;
      }
      const Duration left = end - clock.Now();
      if (left <= Duration::zero()) return false;
      none_open_.WaitFor(mutex_, left);
    }
    return true;
  }

  // Spread by +-10 %, so that clients that came together do not come back together.
  Duration AgeMax() {
    return options_.connection_age_max / 1000 * static_cast<std::int64_t>(900 + random_.Below(201));
  }

  // Stays with the loop that accepted it, unless another one has fewer: the kernel spreads by
  // chance, and a few connections that live long would stay uneven for as long.
  void OnAccept(std::size_t acceptor, int fd, std::string peer) MR_EXCLUDES(mutex_) {
    std::size_t chosen = acceptor;
    std::uint64_t id = 0;
    {
      MutexLock lock(mutex_);
      if (open_total_ < options_.connections_max) {
        const auto least = std::min_element(open_per_share_.begin(), open_per_share_.end());
        if (*least < open_per_share_[acceptor]) {
          chosen = static_cast<std::size_t>(least - open_per_share_.begin());
        }
        ++open_per_share_[chosen];
        ++open_total_;
        id = ++last_connection_id_;
      }
    }
    if (id == 0) {
      refused_.Increment();
      close(fd);
      return;
    }
    open_gauge_.Add(1);
    LoopShare& share = *shares_[chosen];
    share.loop.Post([this, &share, chosen, id, fd, peer = std::move(peer)]() mutable {
      if (share.draining) {
        close(fd);
        OnGone(chosen);
        return;
      }
      TlsContext tls = TlsFor(peer);
      share.connections.emplace(
          id, std::make_unique<ServerConnection>(
                  options_, methods_, log_, share.loop,
                  ServerConnection::Accepted{fd, std::move(peer), std::move(tls), AgeMax()},
                  [this, &share, chosen, id] {
                    share.connections.erase(id);
                    OnGone(chosen);
                  }));
    });
  }

  void OnGone(std::size_t share) MR_EXCLUDES(mutex_) {
    open_gauge_.Add(-1);
    MutexLock lock(mutex_);
    --open_per_share_[share];
    if (--open_total_ == 0) none_open_.NotifyAll();
  }

  const ServerOptions options_;
  HealthService health_;
  MethodTable methods_;
  Log& log_;
  SystemRandom random_;
  Gauge& open_gauge_;
  Counter& refused_;
  std::unique_ptr<TlsCredentials> credentials_;  // Null = plain text.
  std::unique_ptr<TlsReloader> reloader_;
  std::vector<std::unique_ptr<LoopShare>> shares_;
  std::vector<std::string> addresses_;
  bool started_ = false;
  bool stopped_ = false;

  Mutex mutex_;
  CondVar none_open_;
  std::vector<std::size_t> open_per_share_ MR_GUARDED_BY(mutex_);
  std::size_t open_total_ MR_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_connection_id_ MR_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Server> Server::Create(std::vector<exec::EventLoop*> loops, ServerOptions options,
                                       ServiceTable services, Log& log, Metrics& metrics) {
  return std::make_unique<ServerImpl>(loops, std::move(options), std::move(services), log, metrics);
}

}  // namespace millrace::rpc
