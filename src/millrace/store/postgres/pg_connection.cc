#include "millrace/store/postgres/pg_connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace millrace::store {
namespace {

constexpr int kServerVersionMin = 130'000;

std::string Milliseconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// The session's settings. Every statement of ours is a handful of index look-ups driven by arrays;
// a plan made while a table was empty must not turn into a scan of it later.
std::string SessionSql(const PostgresConfig& config) {
  return "SET statement_timeout = " + Milliseconds(config.statement_timeout) +
         "; SET lock_timeout = " + Milliseconds(config.lock_timeout) +
         "; SET default_transaction_isolation = 'read committed'"
         "; SET plan_cache_mode = force_generic_plan"
         "; SET enable_seqscan = off; SET enable_bitmapscan = off"
         "; SET enable_hashjoin = off; SET enable_mergejoin = off"
         "; SET jit = off; SET client_min_messages = error"
         "; SELECT current_setting('synchronous_commit'), pg_is_in_recovery()";
}

std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string Field(const PGresult* result, int field) {
  const char* text = PQresultErrorField(result, field);
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

void PgConnection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

PgConnection::PgConnection(const PostgresConfig& config, PgCounters& counters)
    : config_(config), counters_(counters) {}

PgConnection::~PgConnection() = default;

Result<std::unique_ptr<PgConnection>> PgConnection::Connect(const PostgresConfig& config,
                                                            PgCounters& counters) {
  std::unique_ptr<PgConnection> made(new PgConnection(config, counters));
  const std::string seconds = std::to_string(
      std::max<long>(2, std::chrono::ceil<std::chrono::seconds>(config.connect_timeout).count()));
  // What comes later wins, so the connection string may say otherwise.
  const char* const names[] = {"fallback_application_name",
                               "connect_timeout",
                               "target_session_attrs",
                               "keepalives_idle",
                               "keepalives_interval",
                               "keepalives_count",
                               "tcp_user_timeout",
                               "dbname",
                               nullptr};
  const char* const values[] = {"millrace", seconds.c_str(), "read-write",       "10",   "5",
                                "3",        "30000",         config.url.c_str(), nullptr};
  made->connection_.reset(PQconnectStartParams(names, values, /*expand_dbname=*/1));
  const auto failed = [&](const std::string& why) {
    counters.connects_failed.Increment();
    return Status(StatusCode::kUnavailable, "cannot connect to PostgreSQL: " + why);
  };
  if (made->connection_ == nullptr) return failed("out of memory");
  const Instant deadline = made->clock_.Now() + config.connect_timeout;
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (PQstatus(made->connection_.get()) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
         state != PGRES_POLLING_FAILED) {
    if (!made->Poll(state == PGRES_POLLING_WRITING, deadline)) {
      return failed("no answer within " + Milliseconds(config.connect_timeout) + " ms");
    }
    state = PQconnectPoll(made->connection_.get());
  }
  if (PQstatus(made->connection_.get()) != CONNECTION_OK) return failed(made->ErrorText());
  if (PQserverVersion(made->connection_.get()) < kServerVersionMin) {
    return Status(StatusCode::kFailedPrecondition, "PostgreSQL 13 or newer is needed");
  }
  // What the server remarks on its own is not for this process's standard error.
  PQsetNoticeProcessor(made->connection_.get(), [](void*, const char*) {}, nullptr);
  PQsetnonblocking(made->connection_.get(), 1);
  if (Status started = made->StartSession(); !started.ok()) {
    return failed(std::string(started.message()));
  }
  counters.connects.Increment();
  return made;
}

Status PgConnection::StartSession() {
  const PgReply reply = RunText(SessionSql(config_), config_.connect_timeout);
  if (!reply.status.ok()) return {StatusCode::kUnavailable, std::string(reply.status.message())};
  if (reply.rows.Bytes(0, 1) == "t") {
    return {StatusCode::kUnavailable, "the server is a standby and takes no writes"};
  }
  const std::string_view sync = reply.rows.Bytes(0, 0);
  synced_commit_ = sync == "off" ? "on" : std::string(sync);
  return {};
}

int PgConnection::server_version() const { return PQserverVersion(connection_.get()); }

std::string PgConnection::ErrorText() const { return OneLine(PQerrorMessage(connection_.get())); }

bool PgConnection::Poll(bool write, Instant deadline) {
  pollfd entry{};
  entry.fd = PQsocket(connection_.get());
  entry.events = static_cast<short>(POLLIN | (write ? POLLOUT : 0));
  for (;;) {
    const Duration left = deadline - clock_.Now();
    if (left <= Duration::zero()) return false;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = poll(&entry, 1, static_cast<int>(std::min<long>(ms, 60'000)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

bool PgConnection::alive() {
  if (lost_ || PQstatus(connection_.get()) != CONNECTION_OK) return false;
  pollfd entry{PQsocket(connection_.get()), POLLIN, 0};
  // At rest the server has nothing to say but that it is going away. The end of the connection lies
  // behind its last words and takes another look.
  while (!lost_ && poll(&entry, 1, 0) > 0) {
    if (PQconsumeInput(connection_.get()) == 0 || PQstatus(connection_.get()) != CONNECTION_OK) {
      lost_ = true;
    } else if (PQgetResult(connection_.get()) != nullptr) {
      lost_ = true;
    }
  }
  return !lost_;
}

Status PgConnection::Prepare(const PgStatement& statement) {
  if (prepared_.contains(statement.name)) return {};
  if (PQsendPrepare(connection_.get(), statement.name.c_str(), statement.sql.c_str(), 0, nullptr) ==
      0) {
    lost_ = true;
    return {StatusCode::kUnavailable, ErrorText()};
  }
  const PgReply reply = Await(clock_.Now() + config_.statement_timeout + config_.reply_margin);
  if (!reply.status.ok()) return {StatusCode::kUnavailable, std::string(reply.status.message())};
  prepared_.insert(statement.name);
  return {};
}

PgReply PgConnection::Run(const PgStatement& statement, const PgParams& params) {
  return RunFor(statement, params, config_.statement_timeout);
}

PgReply PgConnection::RunLong(const PgStatement& statement, const PgParams& params) {
  const auto set = [this](Duration timeout) {
    return RunText("SET statement_timeout = " + Milliseconds(timeout),
                   config_.statement_timeout + config_.reply_margin);
  };
  PgReply longer = set(config_.delete_queue_timeout);
  if (!longer.status.ok()) return {{StatusCode::kUnavailable, "connection lost"}, "", {}};
  PgReply reply = RunFor(statement, params, config_.delete_queue_timeout);
  if (!set(config_.statement_timeout).status.ok()) lost_ = true;
  return reply;
}

PgReply PgConnection::RunFor(const PgStatement& statement, const PgParams& params,
                             Duration timeout) {
  if (!alive()) return {{StatusCode::kUnavailable, "the connection was lost"}, "", {}};
  if (Status prepared = Prepare(statement); !prepared.ok()) return {std::move(prepared), "", {}};
  const std::vector<const char*> values = params.values();
  const std::vector<int> lengths = params.lengths();
  const std::vector<int> binary(values.size(), 1);
  counters_.statements.Increment();
  if (PQsendQueryPrepared(connection_.get(), statement.name.c_str(), params.size(), values.data(),
                          lengths.data(), binary.data(), 1) == 0) {
    // Refused by the library itself: nothing complete was sent.
    lost_ = true;
    return {{StatusCode::kUnavailable, ErrorText()}, "", {}};
  }
  return Await(clock_.Now() + timeout + config_.reply_margin);
}

PgReply PgConnection::RunText(const std::string& sql, Duration timeout) {
  if (!alive()) return {{StatusCode::kUnavailable, "the connection was lost"}, "", {}};
  counters_.statements.Increment();
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) {
    lost_ = true;
    return {{StatusCode::kUnavailable, ErrorText()}, "", {}};
  }
  return Await(clock_.Now() + timeout);
}

PgReply PgConnection::Await(Instant deadline) {
  counters_.round_trips.Increment();
  pg_conn* const connection = connection_.get();
  const auto lost = [this](const std::string& why) {
    lost_ = true;
    return PgReply{{StatusCode::kUnknownOutcome, "connection to PostgreSQL lost: " + why}, "", {}};
  };
  for (;;) {
    const int unsent = PQflush(connection);
    if (unsent < 0) break;  // What the server said is still to be read.
    if (unsent == 0) break;
    if (!Poll(/*write=*/true, deadline)) {
      // The message's end, which makes the server act, is still here.
      lost_ = true;
      return {{StatusCode::kUnavailable, "PostgreSQL takes no data"}, "", {}};
    }
    if (PQconsumeInput(connection) == 0) return lost(ErrorText());
  }
  PgReply reply;
  bool executed = false;
  for (;;) {
    while (PQisBusy(connection) != 0) {
      if (!Poll(/*write=*/false, deadline)) return lost("no answer in time");
      if (PQconsumeInput(connection) == 0) break;
    }
    PgRows result(PQgetResult(connection));
    if (!result.present()) break;
    const pg_result* raw = result.raw();
    switch (PQresultStatus(raw)) {
      case PGRES_TUPLES_OK:
      case PGRES_COMMAND_OK:
        executed = true;
        if (reply.status.ok()) reply.rows = std::move(result);
        break;
      default: {
        if (!reply.status.ok()) break;
        reply.sqlstate = Field(raw, PG_DIAG_SQLSTATE);
        const std::string severity = Field(raw, PG_DIAG_SEVERITY_NONLOCALIZED);
        std::string text = Field(raw, PG_DIAG_MESSAGE_PRIMARY);
        if (text.empty()) text = OneLine(PQresultErrorMessage(raw));
        const bool aborted = severity == "ERROR" || (severity == "FATAL" && !executed);
        reply.status = Status(aborted ? StatusCode::kUnavailable : StatusCode::kUnknownOutcome,
                              "PostgreSQL: " + text);
        break;
      }
    }
  }
  if (PQstatus(connection) != CONNECTION_OK) {
    lost_ = true;
    // Rows without the word that their transaction ended: it may not have.
    if (reply.status.ok()) return lost(ErrorText());
  }
  return reply;
}

}  // namespace millrace::store
