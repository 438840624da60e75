#include "millrace/store/postgres/pg_node_table.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace millrace::store {
namespace {

PostgresConfig Hasty(PostgresConfig config, Duration answer_within) {
  config.connect_timeout = std::min(config.connect_timeout, answer_within);
  config.statement_timeout = std::min(config.statement_timeout, answer_within);
  config.lock_timeout = answer_within;
  return config;
}

// Any bytes as a text literal, without quoting rules.
std::string Text(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "convert_from('\\x";
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out + "', 'UTF8')";
}

std::string Number(std::uint64_t value) {
  return "(" + std::to_string(static_cast<std::int64_t>(value)) + ")";
}

std::string Microseconds(const std::string& interval) {
  return "(extract(epoch FROM " + interval + ") * 1000000)::bigint";
}

std::int64_t Int(const PgRows& rows, int row, int column) {
  return std::strtoll(std::string(rows.Bytes(row, column)).c_str(), nullptr, 10);
}

// The number is ours alone.
constexpr char kTakeTurn[] = "SELECT pg_advisory_xact_lock(5571860274918232)";

}  // namespace

PgNodeTable::PgNodeTable(PostgresConfig config, Duration answer_within)
    : config_(Hasty(std::move(config), answer_within)),
      answer_within_(answer_within),
      counters_(NullMetrics()) {}

PgReply PgNodeTable::Run(const std::string& sql) {
  if (connection_ == nullptr || !connection_->alive()) {
    connection_ = nullptr;
    Result<std::unique_ptr<PgConnection>> made = PgConnection::Connect(config_, counters_);
    if (!made.ok()) return {made.status(), "", {}};
    connection_ = std::move(*made);
  }
  PgReply reply = connection_->RunText(sql, answer_within_);
  if (!reply.status.ok()) {
    reply.status = Status(StatusCode::kUnavailable, std::string(reply.status.message()));
  }
  return reply;
}

Result<NodeRows> PgNodeTable::Beat(const NodeBeat& beat, bool first) {
  const bool news = first || beat.applied != written_applied_ || beat.state != written_state_;
  // One message without BEGIN is one transaction, and each statement sees what was committed before
  // it began, the lock included.
  std::string sql = kTakeTurn;
  if (!news) sql += "; SELECT set_config('synchronous_commit', 'off', true)";
  if (first) {
    sql +=
        "; DELETE FROM millrace_nodes WHERE expires_at < now() - interval '1 hour' OR (address = " +
        Text(beat.address) + " AND id <> " + Text(beat.id) + ")";
  }
  sql +=
      "; INSERT INTO millrace_nodes AS n (id, incarnation, address, state, applied, queues,"
      " started_at, beat_at, expires_at) SELECT " +
      Text(beat.id) + ", " + Number(beat.incarnation) + ", " + Text(beat.address) + ", " +
      std::to_string(static_cast<int>(beat.state)) + ", " + Number(beat.applied) + ", " +
      std::to_string(beat.queues) + ", t, t, t + interval '1 microsecond' * " +
      std::to_string(beat.expiry / std::chrono::microseconds(1)) +
      " FROM clock_timestamp() t ON CONFLICT (id) DO UPDATE SET incarnation ="
      " excluded.incarnation, address = excluded.address, state = excluded.state, applied ="
      " excluded.applied, queues = excluded.queues, beat_at = excluded.beat_at, expires_at ="
      " excluded.expires_at, started_at = CASE WHEN n.incarnation = excluded.incarnation THEN"
      " n.started_at ELSE excluded.started_at END";
  if (!first) {
    sql += " WHERE n.incarnation = excluded.incarnation OR n.expires_at <= excluded.beat_at";
  }
  sql += "; SELECT id, incarnation, address, state, applied, queues, " +
         Microseconds("started_at") + ", " + Microseconds("t - beat_at") + ", " +
         Microseconds("expires_at - t") + ", " + Microseconds("t") +
         " FROM (SELECT clock_timestamp() t OFFSET 0) c LEFT JOIN millrace_nodes ON expires_at > t"
         " ORDER BY id";
  const PgReply reply = Run(sql);
  if (!reply.status.ok()) return reply.status;
  written_applied_ = beat.applied;
  written_state_ = beat.state;
  NodeRows out;
  const PgRows& rows = reply.rows;
  for (int i = 0; i < rows.size(); ++i) {
    out.now.ns = Int(rows, i, 9) * 1'000;
    if (rows.IsNull(i, 0)) continue;  // Nobody is alive, not even we.
    NodeRow row;
    row.id = rows.Bytes(i, 0);
    row.incarnation = static_cast<std::uint64_t>(Int(rows, i, 1));
    row.address = rows.Bytes(i, 2);
    row.state = Int(rows, i, 3) == 0 ? NodeState::kServing : NodeState::kLeaving;
    row.applied = static_cast<std::uint64_t>(Int(rows, i, 4));
    row.queues = Int(rows, i, 5);
    row.started.ns = Int(rows, i, 6) * 1'000;
    row.age = std::max(Duration::zero(), Duration(std::chrono::microseconds(Int(rows, i, 7))));
    row.expires_in = std::chrono::microseconds(Int(rows, i, 8));
    out.rows.push_back(std::move(row));
  }
  return out;
}

Status PgNodeTable::Remove(const std::string& id, std::uint64_t incarnation) {
  return Run(std::string(kTakeTurn) + "; DELETE FROM millrace_nodes WHERE id = " + Text(id) +
             " AND incarnation = " + Number(incarnation))
      .status;
}

}  // namespace millrace::store
