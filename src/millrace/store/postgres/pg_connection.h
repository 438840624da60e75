#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/store/postgres/pg_counters.h"
#include "millrace/store/postgres/pg_values.h"
#include "millrace/store/postgres/postgres_config.h"

struct pg_conn;

namespace millrace::store {

struct PgStatement {
  std::string name;  // Prepared under it, once a connection.
  std::string sql;
};

struct PgReply {
  Status status;         // See PgConnection.
  std::string sqlstate;  // Of the server's error; empty when there was none.
  PgRows rows;
};

// One connection to a PostgreSQL server.
//
// A prepared statement is sent together with the end of its implicit transaction, so it costs one
// round trip. What an error says about that transaction:
//   kUnavailable: the server refused or aborted it, or it was not sent: surely not applied.
//   kUnknownOutcome: it was sent, and the connection was lost (or the server silent for too long)
//   before the answer was complete.
// A server that ends the session tells so before it has executed the statement, or the end comes
// without a word; an end that is announced after the statement's result may have met its commit.
//
// Thread: one at a time. Blocks.
// Bounds: connect_timeout; statement_timeout + reply_margin a call.
// Invariants: after kUnknownOutcome, and whenever alive() is false, it answers kUnavailable only.
class PgConnection {
 public:
  // kUnavailable: nobody there, refused, or not able to write (a standby). kFailedPrecondition: too
  // old a server.
  static Result<std::unique_ptr<PgConnection>> Connect(const PostgresConfig& config,
                                                       PgCounters& counters);
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  PgReply Run(const PgStatement& statement, const PgParams& params);
  // The same, with delete_queue_timeout for statement_timeout.
  PgReply RunLong(const PgStatement& statement, const PgParams& params);
  // One or more statements as text, without parameters; rows of the last one, as text. `timeout`:
  // how long to wait for the answer.
  PgReply RunText(const std::string& sql, Duration timeout);

  // False once the connection is known to be gone. Looks at the socket, does not wait.
  bool alive();
  // What synced writes and relaxed ones set synchronous_commit to.
  [[nodiscard]] const std::string& synced_commit() const { return synced_commit_; }
  [[nodiscard]] int server_version() const;

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };

  PgConnection(const PostgresConfig& config, PgCounters& counters);
  Status StartSession();
  PgReply RunFor(const PgStatement& statement, const PgParams& params, Duration timeout);
  // Sends what is queued and reads the answer to its end.
  PgReply Await(Instant deadline);
  // Waits until the socket can be read (or, with `write`, written). False: deadline.
  bool Poll(bool write, Instant deadline);
  Status Prepare(const PgStatement& statement);
  std::string ErrorText() const;

  const PostgresConfig& config_;
  PgCounters& counters_;
  SystemClock clock_;
  std::unique_ptr<pg_conn, Finish> connection_;
  bool lost_ = false;
  std::set<std::string, std::less<>> prepared_;
  std::string synced_commit_ = "on";
};

}  // namespace millrace::store
