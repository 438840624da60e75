#include "millrace/store/postgres/pg_pool.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/random.h"

namespace millrace::store {
namespace {

// Writes enough to need space, so that a full disk is told from one that has some again.
const PgStatement kProbe{
    "probe",
    "INSERT INTO millrace_probe (id, written_at, filler) VALUES (1, now(), $1) "
    "ON CONFLICT (id) DO UPDATE SET written_at = now(), filler = excluded.filler"};
constexpr std::size_t kProbeBytes = 64u << 10;

// What cannot be compressed needs new pages.
std::string Filler() {
  SystemRandom random;
  std::string out;
  while (out.size() < kProbeBytes) {
    const std::uint64_t next = random.Next();
    out.append(reinterpret_cast<const char*>(&next), sizeof next);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<PgPool>> PgPool::Open(const PostgresConfig& config, Metrics& metrics,
                                             Log& log) {
  std::unique_ptr<PgPool> pool(new PgPool(config, metrics, log));
  Result<std::unique_ptr<PgConnection>> first =
      PgConnection::Connect(pool->config_, pool->counters_);
  if (!first.ok()) return first.status();
  {
    MutexLock lock(pool->mutex_);
    pool->open_ = 1;
    pool->at_rest_.push_back(std::move(*first));
  }
  pool->watch_thread_ = std::thread([raw = pool.get()] { raw->WatchLoop(); });
  return pool;
}

PgPool::PgPool(const PostgresConfig& config, Metrics& metrics, Log& log)
    : config_(config), counters_(metrics), log_(log) {
  MR_CHECK(config.connections_max > 0);
}

PgPool::~PgPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  watch_wake_.NotifyAll();
  if (watch_thread_.joinable()) watch_thread_.join();
}

Result<PgPool::Lease> PgPool::Take() {
  const Instant deadline = clock_.Now() + config_.connection_wait_max;
  {
    MutexLock lock(mutex_);
    for (;;) {
      if (!down_.ok()) return down_;
      while (!at_rest_.empty()) {
        std::unique_ptr<PgConnection> connection = std::move(at_rest_.back());
        at_rest_.pop_back();
        if (connection->alive()) return Lease(*this, std::move(connection));
        --open_;
        Suspect();
      }
      if (open_ < config_.connections_max) break;
      const Duration left = deadline - clock_.Now();
      if (left <= Duration::zero()) {
        return Status(StatusCode::kUnavailable, "all connections to PostgreSQL are busy");
      }
      given_back_.WaitFor(mutex_, left);
    }
    ++open_;
  }
  Result<std::unique_ptr<PgConnection>> made = PgConnection::Connect(config_, counters_);
  if (made.ok()) return Lease(*this, std::move(*made));
  MutexLock lock(mutex_);
  --open_;
  GoDown(made.status());
  given_back_.NotifyOne();
  return Status(StatusCode::kUnavailable, std::string(made.status().message()));
}

void PgPool::GiveBack(std::unique_ptr<PgConnection> connection) {
  const bool alive = connection->alive();
  {
    MutexLock lock(mutex_);
    if (alive) {
      at_rest_.push_back(std::move(connection));
    } else {
      --open_;
      Suspect();
    }
  }
  given_back_.NotifyOne();
}

Status PgPool::Health() {
  MutexLock lock(mutex_);
  return down_;
}

void PgPool::ReportBroken(const Status& why) {
  MutexLock lock(mutex_);
  short_of_space_ = true;
  GoDown(why);
}

// Whether it was one connection or the whole server is found out at once.
void PgPool::Suspect() {
  suspected_ = true;
  watch_wake_.NotifyAll();
}

void PgPool::GoDown(const Status& why) {
  if (!down_.ok()) return;
  down_ = Status(StatusCode::kUnavailable, std::string(why.message()));
  given_back_.NotifyAll();
  watch_wake_.NotifyAll();
}

Result<std::unique_ptr<PgConnection>> PgPool::Probe(bool writing) {
  Result<std::unique_ptr<PgConnection>> made = PgConnection::Connect(config_, counters_);
  if (!made.ok() || !writing) return made;
  PgParams params;
  params.Bytes(Filler());
  const PgReply reply = (*made)->Run(kProbe, params);
  if (!reply.status.ok()) return reply.status;
  counters_.commits.Increment();
  return made;
}

void PgPool::DropDeadAtRest() {
  const std::size_t before = at_rest_.size();
  std::erase_if(at_rest_, [](const auto& connection) { return !connection->alive(); });
  const std::size_t dropped = before - at_rest_.size();
  open_ -= dropped;
  if (dropped > 0) Suspect();
}

void PgPool::WatchLoop() {
  Duration wait = Duration::zero();  // Before the next probe.
  bool said = false;
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (down_.ok() && !suspected_) {
      wait = Duration::zero();
      watch_wake_.WaitFor(mutex_, config_.watch_interval);
      if (!stopping_ && down_.ok()) DropDeadAtRest();
      continue;
    }
    if (wait > Duration::zero()) {
      const Instant until = clock_.Now() + wait;
      while (!stopping_ && clock_.Now() < until) {
        watch_wake_.WaitFor(mutex_, until - clock_.Now());
      }
      if (stopping_) break;
    }
    // Those at rest are from before; the server behind them may be gone without having said so.
    std::vector<std::unique_ptr<PgConnection>> old;
    old.swap(at_rest_);
    open_ -= old.size();
    const bool writing = short_of_space_;
    mutex_.Unlock();
    old.clear();
    Result<std::unique_ptr<PgConnection>> probed = Probe(writing);
    if (!probed.ok() && wait > Duration::zero() && !said) {
      said = true;
      const std::string why(probed.status().message());
      log_.Write(LogLevel::kWarn, "postgres", "PostgreSQL does not take writes; trying again",
                 {{"error", std::string_view(why)}});
    }
    mutex_.Lock();
    suspected_ = false;
    if (!probed.ok()) {
      down_ = Status(StatusCode::kUnavailable, std::string(probed.status().message()));
      wait = wait == Duration::zero() ? config_.reconnect_min
                                      : std::min(2 * wait, config_.reconnect_max);
      continue;
    }
    if (said) log_.Write(LogLevel::kInfo, "postgres", "PostgreSQL takes writes again", {});
    said = false;
    if (short_of_space_ != writing) continue;
    short_of_space_ = false;
    down_ = Status();
    if (open_ < config_.connections_max) {
      ++open_;
      at_rest_.push_back(std::move(*probed));
    }
    given_back_.NotifyAll();
  }
}

}  // namespace millrace::store
