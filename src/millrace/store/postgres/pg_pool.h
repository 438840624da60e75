#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/pg_counters.h"
#include "millrace/store/postgres/postgres_config.h"

namespace millrace::store {

// The connections of one process, and the truth about whether the database answers.
//
//   up --a connection is lost--> suspected --probe works--> up
//   up, suspected --no connection to be had, or a write refused for want of space--> down
//   down --probe works--> up
//
// While it is down a thread probes, backing off, and everybody else is refused at once. While it is
// up that thread only looks at the sockets of connections at rest: no statement, no wake-up of the
// server.
//
// Thread: any.
// Bounds: connections_max; a caller waits connection_wait_max for a free one.
// Fails: kUnavailable.
class PgPool {
 public:
  // A connection taken from the pool; goes back at the end.
  class Lease {
   public:
    Lease(PgPool& pool, std::unique_ptr<PgConnection> connection)
        : pool_(&pool), connection_(std::move(connection)) {}
    ~Lease() {
      if (connection_ != nullptr) pool_->GiveBack(std::move(connection_));
    }
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    PgConnection* operator->() const { return connection_.get(); }
    PgConnection& operator*() const { return *connection_; }

   private:
    PgPool* pool_;
    std::unique_ptr<PgConnection> connection_;
  };

  // Connects once; the error of that is the answer.
  static Result<std::unique_ptr<PgPool>> Open(const PostgresConfig& config, Metrics& metrics,
                                              Log& log);
  ~PgPool();
  PgPool(const PgPool&) = delete;
  PgPool& operator=(const PgPool&) = delete;

  Result<Lease> Take();
  // Ok, or why writes are refused.
  Status Health();
  // A write was refused in a way that the next one will be as well (no space left).
  void ReportBroken(const Status& why);

  [[nodiscard]] PgCounters& counters() { return counters_; }
  [[nodiscard]] const PostgresConfig& config() const { return config_; }

 private:
  PgPool(const PostgresConfig& config, Metrics& metrics, Log& log);
  void GiveBack(std::unique_ptr<PgConnection> connection);
  void Suspect() MR_REQUIRES(mutex_);
  void GoDown(const Status& why) MR_REQUIRES(mutex_);
  // One attempt to connect, and to write.
  Result<std::unique_ptr<PgConnection>> Probe(bool writing);
  void DropDeadAtRest() MR_REQUIRES(mutex_);
  void WatchLoop();

  const PostgresConfig config_;
  PgCounters counters_;
  Log& log_;
  SystemClock clock_;

  Mutex mutex_;
  CondVar given_back_;
  CondVar watch_wake_;
  std::vector<std::unique_ptr<PgConnection>> at_rest_ MR_GUARDED_BY(mutex_);
  std::size_t open_ MR_GUARDED_BY(mutex_) = 0;  // At rest, taken, or being made.
  Status down_ MR_GUARDED_BY(mutex_);           // Why, or ok.
  bool suspected_ MR_GUARDED_BY(mutex_) = false;
  bool short_of_space_ MR_GUARDED_BY(mutex_) = false;  // Down for want of something.
  bool stopping_ MR_GUARDED_BY(mutex_) = false;

  std::thread watch_thread_;
};

}  // namespace millrace::store
