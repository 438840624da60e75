#include "millrace/store/postgres/pg_statements.h"

#include <string>
#include <string_view>
#include <utility>

namespace millrace::store {

PgStatements::PgStatements(const RowLayout& layout) : layout_(layout) {
  const std::string suffix = "_" + std::to_string(layout.number());
  const auto make = [&](std::string name, std::string sql) {
    return PgStatement{std::move(name) + suffix, FillIn(std::move(sql), layout)};
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

  // $1 range hashes, $2 ids. Answers with the numbers of those that are there, from 1, and their
  // range ids.
  read_range_ids = make("read_range_ids",
                        "SELECT q.o, k.range_id FROM unnest($1::int8[], $2::bytea[]) WITH "
                        "ORDINALITY AS q(h, i, o) JOIN {queues} k ON k.range_hash = q.h AND "
                        "k.task_queue_id = q.i");

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
  // The last of the rows is looked up, and all up to it are deleted: no join, whose plan would be
  // right only for as many rows as there were when it was made.
  const std::string doomed =
      "FROM {tasks} k WHERE (SELECT n FROM sync) >= 0 AND k.range_hash = $3::int8 AND "
      "k.task_queue_id = $4::bytea AND ";
  const auto last = [](const char* column, const char* otherwise) {
    return std::string("coalesce((SELECT ") + column + " FROM last), " + otherwise + ")";
  };
  delete_tasks = make(
      "delete_tasks",
      "WITH locked AS MATERIALIZED (SELECT 1 FROM {queues} WHERE range_hash = $1::int8 AND "
      "task_queue_id = $2::bytea FOR UPDATE), "
      "sync AS MATERIALIZED (SELECT count(*) AS n, set_config('synchronous_commit', $8::text, "
      "true) AS s FROM locked), "
      "last AS MATERIALIZED (SELECT {pass} AS pass, k.task_id " +
          doomed +
          (pass ? "(k.pass, k.task_id) <= ($5::int8, $6::int8)"
                : "$5::int8 = 0 AND k.task_id <= $6::int8") +
          " ORDER BY " + order + " OFFSET greatest($7::int8, 1) - 1 LIMIT 1) DELETE " + doomed +
          (pass ? "(k.pass, k.task_id) <= (" + last("pass", "$5::int8") + ", " +
                      last("task_id", "$6::int8") + ")"
                : "$5::int8 = 0 AND k.task_id <= " + last("task_id", "$6::int8")));

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

const PgStatement& PgStatements::Commit(const CommitShape& shape) {
  MutexLock lock(mutex_);
  PgStatement& statement = commits_[shape];
  if (statement.sql.empty()) {
    // The same in every process and store, as connections may be shared.
    std::string name = "commit_" + std::to_string(layout_.number()) + "_";
    for (const bool part :
         {shape.updates_all, shape.makes_queues, shape.replaces_tasks, shape.skips_locked,
          shape.creates, shape.deletes, shape.side_puts, shape.side_deletes}) {
      name.push_back(part ? '1' : '0');
    }
    statement = {std::move(name), CommitSql(layout_, shape)};
  }
  return statement;
}

}  // namespace millrace::store
