#include "millrace/server/server.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "millrace/base/mutex.h"
#include "millrace/server/cpu_count.h"
#include "millrace/server/process_collector.h"
#include "millrace/server/value_text.h"
#include "millrace/server/version.h"
#include "millrace/store/threaded_task_store.h"

namespace millrace::server {
namespace {

constexpr Duration kHealthInterval = std::chrono::milliseconds(250);
constexpr Duration kStillStoppingInterval = std::chrono::seconds(5);

std::optional<rpc::TlsServerOptions> TlsOptions(const TlsSettings& settings) {
  using enum rpc::TlsServerOptions::ClientAuth;
  if (settings.cert_file.empty()) return std::nullopt;
  rpc::TlsServerOptions tls;
  tls.cert_file = settings.cert_file;
  tls.key_file = settings.key_file;
  tls.client_ca_file = settings.client_ca_file;
  if (!settings.client_ca_file.empty()) {
    tls.client_auth = settings.client_auth == ClientAuth::kRequired ? kRequired : kOptional;
  }
  return tls;
}

}  // namespace

Server::Server(ServerConfig config, ServerParts parts, StderrLog& log)
    : config_(std::move(config)),
      parts_(std::move(parts)),
      log_(log),
      ready_file_(config_.ready_file) {
  process_metrics_ = metrics_.AddCollector(ProcessCollector(clock_.WallNow()));
}

Server::~Server() { Stop(); }

std::string Server::admin_address() const { return admin_ == nullptr ? "" : admin_->address(); }

Status Server::Start() {
  Status status = StartParts();
  if (!status.ok()) Stop();
  return status;
}

Status Server::StartParts() {
  MR_RETURN_IF_ERROR(StartAdmin());
  MR_RETURN_IF_ERROR(OpenStore());
  MR_RETURN_IF_ERROR(StartLoops());
  MR_RETURN_IF_ERROR(StartRpc());
  application_->OnServing(grpc_addresses_);
  readiness_.SetPhase(Readiness::Phase::kServing);
  PollHealth();
  health_ = std::make_unique<PeriodicTask>(*loops_[0], kHealthInterval, [this] {
    PollHealth();
    log_.FlushRepeats();
  });
  return ready_file_.Write(grpc_addresses_[0], admin_address());
}

Status Server::StartAdmin() {
  if (config_.admin_listen.empty()) return OkStatus();
  AdminHooks hooks;
  hooks.ready = [this] { return readiness_.Get(); };
  hooks.metrics = [this] { return metrics_.Scrape(); };
  hooks.version = [] { return VersionJson(); };
  auto admin = AdminHttp::Start(config_.admin_listen, std::move(hooks));
  if (!admin.ok()) return admin.status();
  admin_ = std::move(admin).value();
  return OkStatus();
}

Status Server::OpenStore() {
  data_dir_ = config_.data_dir;
  if (config_.store.kind == StoreKind::kRocksDb && data_dir_.empty()) {
    if (!config_.dev) {
      return Status(
          StatusCode::kInvalidArgument,
          "data_dir is not set: give --data-dir FOLDER to keep tasks there, or --dev to try "
          "things out in a temporary folder");
    }
    MR_RETURN_IF_ERROR(temp_dir_.Create());
    data_dir_ = temp_dir_.path();
  }
  auto opened = parts_.store({config_, data_dir_, clock_, log_, metrics_});
  if (!opened.ok()) return opened.status();
  store_ = std::move(opened).value();
  store::ThreadedTaskStoreConfig threads;
  // Each queue holds back by itself what nobody waits for.
  threads.relaxed_write_delay = Duration::zero();
  if (config_.store.kind == StoreKind::kPostgres) threads.deletes_apart = true;
  async_store_ = std::make_unique<store::ThreadedTaskStore>(*store_, threads, metrics_);
  return OkStatus();
}

Status Server::StartLoops() {
  const int count = EventLoopCount(config_.event_loops, UsableCores());
  std::vector<exec::EventLoop*> loops;
  for (int i = 0; i < count; ++i) {
    loops_.push_back(exec::EventLoop::Create("loop-" + std::to_string(i), clock_));
    loops.push_back(loops_.back().get());
  }
  application_ = parts_.application(
      {config_, std::move(loops), *async_store_, clock_, random_, log_, metrics_});
  return OkStatus();
}

Status Server::StartRpc() {
  rpc::ServerOptions options;
  options.listen = SplitList(config_.listen);
  if (options.listen.empty()) return Status(StatusCode::kInvalidArgument, "listen is empty");
  options.receive_message_bytes_max = config_.rpc.request_bytes_max;
  options.concurrent_streams_max = config_.rpc.concurrent_streams_max;
  options.connections_max = config_.rpc.connections_max;
  options.idle_timeout = config_.rpc.idle_timeout;
  options.connection_age_max = config_.rpc.connection_age_max;
  options.connection_age_grace = config_.rpc.connection_age_grace;
  options.keepalive_time = config_.rpc.keepalive_time;
  options.keepalive_timeout = config_.rpc.keepalive_timeout;
  options.ping_interval_min = config_.rpc.ping_interval_min;
  options.ping_only_with_calls = config_.rpc.ping_only_with_calls;
  options.tls = TlsOptions(config_.rpc.tls);
  std::vector<exec::EventLoop*> loops;
  for (const auto& loop : loops_) loops.push_back(loop.get());
  rpc_ = rpc::Server::Create(std::move(loops), std::move(options), application_->Services(), log_,
                             metrics_);
  const Status started = rpc_->Start();
  if (!started.ok()) {
    const bool tls = started.message().starts_with("TLS: ");
    return Status(started.code(), (tls ? "" : "listen: ") + std::string(started.message()));
  }
  grpc_addresses_ = rpc_->addresses();
  return OkStatus();
}

void Server::ReloadTls() {
  if (rpc_ != nullptr) rpc_->ReloadTls();
}

void Server::PollHealth() {
  Status health = store_->Health();
  readiness_.SetStoreHealth(health);
  const bool serving = readiness_.Get().ok();
  if (serving == serving_) return;
  serving_ = serving;
  rpc_->SetServing(serving);
  if (serving) {
    log_.Write(LogLevel::kInfo, "server", "ready", {});
  } else {
    const std::string why = health.ToString();
    log_.Write(LogLevel::kError, "server", "not ready: the store refuses writes",
               {{"error", std::string_view(why)}});
  }
}

void Server::Stop() {
  readiness_.SetPhase(Readiness::Phase::kDraining);
  health_.reset();
  if (rpc_ != nullptr) rpc_->SetServing(false);
  if (application_ != nullptr) application_->BeginDrain();
  if (rpc_ != nullptr) rpc_->Shutdown(config_.shutdown_grace);
  rpc_.reset();
  if (application_ != nullptr) StopApplication();
  application_.reset();
  async_store_.reset();
  store_.reset();
  loops_.clear();
  admin_.reset();
}

void Server::StopApplication() {
  Mutex mutex;
  CondVar changed;
  bool stopped = false;
  application_->Stop([&] {
    MutexLock lock(mutex);
    stopped = true;
    changed.NotifyAll();
  });
  for (;;) {
    {
      MutexLock lock(mutex);
      if (!stopped) static_cast<void>(changed.WaitFor(mutex, kStillStoppingInterval));
      if (stopped) return;
    }
    log_.Write(LogLevel::kWarn, "server", "still waiting for the queues' last writes", {});
  }
}

}  // namespace millrace::server
