#include "millrace/store/postgres/pg_statements.h"

#include <string>
#include <string_view>

namespace millrace::store {
namespace {

// Text with $Q, $T and the like replaced by what the layout says.
std::string Fill(std::string text, const RowLayout& layout) {
  const auto replace = [&text](std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  const bool pass = layout.has_pass();
  replace("{queues}", layout.queues_table());
  replace("{tasks}", layout.tasks_table());
  replace("{layout}", std::to_string(layout.number()));
  replace("{encoding}", "'" + std::string(layout.encoding()) + "'");
  replace("{pass,}", pass ? "pass, " : "");
  replace("{c.p,}", pass ? "c.p, " : "");
  replace("{pass}", pass ? "k.pass" : "0::int8");
  return text;
}

// Parameters of a commit.
//   queues, in the order of their keys: $1 range hash, $2 id, $3 expected range id, $4 new range id
//     (null: no metadata), $5 data (null: keep), $6 update time for data that is kept
//   created tasks: $7 queue's number, $8 range hash, $9 id, $10 pass, $11 task id, $12 data
//   deleted tasks: $13 queue's number, $14 range hash, $15 id, $16 pass, $17 task id
//   side rows put: $18 queue's number, $19 range hash, $20 id, $21 key, $22 value
//   side rows deleted: $23 queue's number, $24 range hash, $25 id, $26 key
//   $27 synchronous_commit
//   with state: $28 update time of each queue (null: no metadata), $29 state (null: keep)
std::string CommitSql(const RowLayout& layout, PgStatements::CommitShape shape) {
  const bool state = layout.keeps_state();
  std::string sql = R"(
WITH q AS MATERIALIZED (
  SELECT * FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::int8[], $5::bytea[], $6::bytea[])";
  if (state) sql += ", $28::int8[], $29::bytea[]";
  sql += R"()
    WITH ORDINALITY AS u(h, i, e, r, d, t, )";
  if (state) sql += "su, sd, ";
  sql += R"(o)),
locked AS MATERIALIZED (
  SELECT q.o, q.e, k.range_id FROM q JOIN {queues} k ON k.range_hash = q.h AND k.task_queue_id = q.i
  ORDER BY q.h, q.i FOR UPDATE OF k)";
  if (shape.skips_locked) sql += " SKIP LOCKED";
  sql += ")";
  if (shape.makes_queues) {
    // After all locks, so that a session that waits for a new row holds nothing that the row's
    // maker may still want.
    sql += R"(,
made AS (
  INSERT INTO {queues} (range_hash, task_queue_id, range_id, data, data_encoding)
  SELECT q.h, q.i, q.r, q.d, {encoding} FROM q
  WHERE q.e = 0 AND (SELECT count(*) FROM locked) >= 0 ORDER BY q.h, q.i
  ON CONFLICT DO NOTHING RETURNING task_queue_id))";
  }
  sql += R"(,
checked AS MATERIALIZED (
  SELECT o, max(s) AS s, bool_or(f) AS f FROM (
    SELECT o, range_id AS s, range_id = e AND e <> 0 AS f FROM locked
    UNION ALL SELECT o, NULL, false FROM q)";
  if (shape.makes_queues) {
    sql += R"(
    UNION ALL SELECT array_position($2::bytea[], task_queue_id)::int8, NULL, true FROM made)";
  }
  sql += R"() x GROUP BY o),
mask AS MATERIALIZED (
  SELECT array_agg(f ORDER BY o) AS m, set_config('synchronous_commit', $27::text, true) AS sync
  FROM checked),
meta AS (
  UPDATE {queues} k SET range_id = q.r, data_encoding = {encoding},
    data = )";
  sql += state ? "coalesce(q.d, k.data)"
               : "CASE WHEN q.d IS NULL THEN overlay(k.data PLACING q.t FROM 2) ELSE q.d END";
  sql += R"(
  FROM mask, q WHERE mask.m[q.o::int4] AND q.r IS NOT NULL AND q.e <> 0
    AND k.range_hash = q.h AND k.task_queue_id = q.i),
ins AS (
  INSERT INTO {tasks} (range_hash, task_queue_id, {pass,}task_id, data, data_encoding)
  SELECT c.h, c.i, {c.p,}c.t, c.d, {encoding}
  FROM mask, unnest($7::int4[], $8::int8[], $9::bytea[], $10::int8[], $11::int8[], $12::bytea[])
    AS c(o, h, i, p, t, d)
  WHERE mask.m[c.o])";
  if (shape.replaces_tasks) {
    sql += R"(
  ON CONFLICT (range_hash, task_queue_id, {pass,}task_id)
  DO UPDATE SET data = excluded.data, data_encoding = excluded.data_encoding)";
  }
  sql += R"(),
del AS (
  DELETE FROM {tasks} k
  USING mask, unnest($13::int4[], $14::int8[], $15::bytea[], $16::int8[], $17::int8[])
    AS c(o, h, i, p, t)
  WHERE mask.m[c.o] AND k.range_hash = c.h AND k.task_queue_id = c.i AND {pass} = c.p
    AND k.task_id = c.t),
puts AS (
  INSERT INTO millrace_side_rows (range_hash, task_queue_id, layout, key, value)
  SELECT c.h, c.i, {layout}, c.k, c.v
  FROM mask, unnest($18::int4[], $19::int8[], $20::bytea[], $21::bytea[], $22::bytea[])
    AS c(o, h, i, k, v)
  WHERE mask.m[c.o]
  ON CONFLICT (range_hash, task_queue_id, layout, key) DO UPDATE SET value = excluded.value),
side_del AS (
  DELETE FROM millrace_side_rows k
  USING mask, unnest($23::int4[], $24::int8[], $25::bytea[], $26::bytea[]) AS c(o, h, i, k)
  WHERE mask.m[c.o] AND k.range_hash = c.h AND k.task_queue_id = c.i AND k.layout = {layout}
    AND k.key = c.k))";
  if (state) {
    sql += R"(,
state AS (
  INSERT INTO millrace_queue_state AS k
    (range_hash, task_queue_id, layout, range_id, after_range_id, update_time, state)
  SELECT q.h, q.i, {layout}, q.r, q.e, q.su, coalesce(q.sd, ''::bytea)
  FROM mask, q WHERE mask.m[q.o::int4] AND q.r IS NOT NULL
  ON CONFLICT (range_hash, task_queue_id, layout)
  DO UPDATE SET range_id = excluded.range_id, after_range_id = excluded.after_range_id,
    update_time = excluded.update_time,
    state = CASE WHEN excluded.state = ''::bytea AND k.range_id = excluded.after_range_id
      THEN k.state ELSE excluded.state END))";
  }
  sql += R"(
SELECT o, coalesce(s, 0)::int8 FROM checked WHERE NOT f)";
  return Fill(std::move(sql), layout);
}

std::size_t Index(PgStatements::CommitShape shape) {
  return (shape.makes_queues ? 1u : 0u) | (shape.replaces_tasks ? 2u : 0u) |
         (shape.skips_locked ? 4u : 0u);
}

}  // namespace

PgStatements::PgStatements(const RowLayout& layout) {
  const std::string suffix = "_" + std::to_string(layout.number());
  for (std::size_t i = 0; i < commits_.size(); ++i) {
    const CommitShape shape{(i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
    commits_[i] = {"commit" + std::to_string(i) + suffix, CommitSql(layout, shape)};
  }
  const auto make = [&](std::string name, std::string sql) {
    return PgStatement{std::move(name) + suffix, Fill(std::move(sql), layout)};
  };
  const std::string state_columns =
      layout.keeps_state() ? ", s.state, s.range_id, s.update_time" : "";
  const std::string state_join =
      layout.keeps_state() ? " LEFT JOIN millrace_queue_state s ON s.range_hash = k.range_hash"
                             " AND s.task_queue_id = k.task_queue_id AND s.layout = {layout}"
                           : "";

  // $1 range hash, $2 id.
  read_queue = make("read_queue", "SELECT k.range_id, k.data, k.data_encoding" + state_columns +
                                      " FROM {queues} k" + state_join +
                                      " WHERE k.range_hash = $1::int8 AND k.task_queue_id = "
                                      "$2::bytea");

  // $1 range hash, $2 id, $3 and $4 first pass and id, $5 and $6 last (passes are 0 where rows have
  // none), $7 rows, $8 bytes. The row
  // that exceeds the bytes is the last one: who asks counts exactly. 32: the most that a row has
  // besides its payload where that matters.
  const bool pass = layout.has_pass();
  const std::string from_through =
      pass ? "(k.pass, k.task_id) >= ($3::int8, $4::int8) AND "
             "(k.pass, k.task_id) <= ($5::int8, $6::int8)"
           : "$3::int8 = 0 AND k.task_id >= $4::int8 AND $5::int8 = 0 AND k.task_id <= $6::int8";
  const std::string order = pass ? "k.pass, k.task_id" : "k.task_id";
  const std::string outer_order = pass ? "x.pass, x.task_id" : "x.task_id";
  read_tasks = make(
      "read_tasks",
      "SELECT x.pass, x.task_id, x.data, x.data_encoding FROM ("
      "SELECT {pass} AS pass, k.task_id, k.data, k.data_encoding, coalesce(sum(greatest("
      "octet_length(k.data) - 32, 0)) OVER (ORDER BY " +
          order +
          " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::int8 AS before FROM {tasks} k "
          "WHERE k.range_hash = $1::int8 AND k.task_queue_id = $2::bytea AND " +
          from_through + " ORDER BY " + order +
          " LIMIT $7::int8) x WHERE x.before <= $8::int8 ORDER BY " + outer_order);

  // $1 range hash, $2 id, $3 key above, $4 first key, $5 end (null: none), $6 rows.
  read_side_rows = make(
      "read_side_rows",
      "SELECT key, value FROM millrace_side_rows WHERE range_hash = $1::int8 AND task_queue_id = "
      "$2::bytea AND layout = {layout} AND key > $3::bytea AND key >= $4::bytea AND "
      "(octet_length($5::bytea) = 0 OR key < $5::bytea) ORDER BY key LIMIT $6::int8");

  // $1 and $2 hash and id after which to go on, $3 first id of this kind, $4 end, $5 last hash, $6
  // rows.
  list_queues =
      make("list_queues",
           "SELECT k.range_id, k.data, k.data_encoding" +
               (state_columns.empty() ? std::string(", NULL, NULL, NULL") : state_columns) +
               ", k.range_hash, k.task_queue_id FROM {queues} k" + state_join +
               " WHERE (k.range_hash, k.task_queue_id) > ($1::int8, $2::bytea) AND "
               "k.task_queue_id >= $3::bytea AND k.task_queue_id < $4::bytea AND k.range_hash <= "
               "$5::int8 "
               "ORDER BY k.range_hash, k.task_queue_id LIMIT $6::int8");

  // $1 and $2 hash and id of the queue, $3 and $4 of the tasks, $5 and $6 last pass and id, $7
  // rows, $8 synchronous_commit. With the queue's row locked, so that it never crosses a commit.
  delete_tasks = make(
      "delete_tasks",
      "WITH locked AS MATERIALIZED (SELECT 1 FROM {queues} WHERE range_hash = $1::int8 AND "
      "task_queue_id = $2::bytea FOR UPDATE), "
      "sync AS MATERIALIZED (SELECT count(*) AS n, set_config('synchronous_commit', $8::text, "
      "true) AS s FROM locked), "
      "doomed AS MATERIALIZED (SELECT {pass} AS pass, k.task_id FROM sync, {tasks} k WHERE "
      "sync.n >= 0 AND k.range_hash = $3::int8 AND k.task_queue_id = $4::bytea AND " +
          std::string(pass ? "(k.pass, k.task_id) <= ($5::int8, $6::int8)"
                           : "$5::int8 = 0 AND k.task_id <= $6::int8") +
          " ORDER BY " + order +
          " LIMIT $7::int8) "
          "DELETE FROM {tasks} k USING doomed WHERE k.range_hash = $3::int8 AND k.task_queue_id = "
          "$4::bytea AND {pass} = doomed.pass AND k.task_id = doomed.task_id");

  // $1 and $2 hash and id of the queue, $3 expected range id, $4 to $6 hashes, first ids and end
  // ids of its tasks. Answers with the stored range id.
  delete_queue = make(
      "delete_queue",
      "WITH locked AS MATERIALIZED (SELECT range_id FROM {queues} WHERE range_hash = $1::int8 AND "
      "task_queue_id = $2::bytea FOR UPDATE), "
      "good AS MATERIALIZED (SELECT 1 AS one FROM locked WHERE range_id = $3::int8), "
      "a AS (DELETE FROM {tasks} k USING good, unnest($4::int8[], $5::bytea[], $6::bytea[]) AS "
      "c(h, f, e) WHERE k.range_hash = c.h AND k.task_queue_id >= c.f AND k.task_queue_id < c.e), "
      "b AS (DELETE FROM millrace_side_rows k USING good WHERE k.range_hash = $1::int8 AND "
      "k.task_queue_id = $2::bytea AND k.layout = {layout}), " +
          (layout.keeps_state()
               ? std::string("s AS (DELETE FROM millrace_queue_state k USING good WHERE "
                             "k.range_hash = $1::int8 AND k.task_queue_id = $2::bytea AND "
                             "k.layout = {layout}), ")
               : std::string()) +
          "d AS (DELETE FROM {queues} k USING good WHERE k.range_hash = $1::int8 AND "
          "k.task_queue_id = $2::bytea) "
          "SELECT range_id FROM locked");
}

const PgStatement& PgStatements::Commit(CommitShape shape) const { return commits_[Index(shape)]; }

}  // namespace millrace::store
