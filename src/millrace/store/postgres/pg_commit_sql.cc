#include "millrace/store/postgres/pg_commit_sql.h"

#include <string_view>

#include "millrace/base/check.h"

namespace millrace::store {
namespace {

// Numbers parameters in the order in which they are asked for.
class Parameters {
 public:
  std::string Next(std::string_view type) {
    return "$" + std::to_string(++last_) + "::" + std::string(type);
  }

 private:
  int last_ = 0;
};

// The condition that the queue of this number has passed.
std::string Passed(const CommitShape& shape, const std::string& number) {
  if (shape.updates_all) return "(mask.a OR " + number + " = ANY(mask.m))";
  return "mask.m[" + number + "]";
}

// The range ids are compared by the update of the rows: no lock of its own, no second look-up. Rows
// are met, and so locked, in the order of q: nothing but a loop over q can drive this join.
std::string UpdateAndCompare(const std::string& queues, const std::string& sync) {
  return R"(,
meta AS (
  UPDATE {queues} k SET range_id = q.r, data_encoding = {encoding}, data = q.d
  FROM q WHERE k.range_hash = q.h AND k.task_queue_id = q.i AND k.range_id = q.e RETURNING q.o),
mask AS MATERIALIZED (
  SELECT coalesce(array_agg(o), '{}') AS m, count(*) = cardinality()" +
         queues + ") AS a, " + sync + R"(
  FROM meta))";
}

std::string LockAndCompare(const RowLayout& layout, const CommitShape& shape,
                           const std::string& ids, const std::string& sync) {
  std::string sql = R"(,
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
    sql += "\n    UNION ALL SELECT array_position(" + ids +
           ", task_queue_id)::int8, NULL, true FROM made";
  }
  sql += R"() x GROUP BY o),
mask AS MATERIALIZED (
  SELECT array_agg(f ORDER BY o) AS m, )" +
         sync + R"(
  FROM checked),
meta AS (
  UPDATE {queues} k SET range_id = q.r, data_encoding = {encoding},
    data = )";
  sql += layout.keeps_state()
             ? "coalesce(q.d, k.data)"
             : "CASE WHEN q.d IS NULL THEN overlay(k.data PLACING q.t FROM 2) ELSE q.d END";
  sql += R"(
  FROM mask, q WHERE mask.m[q.o::int4] AND q.r IS NOT NULL AND q.e <> 0
    AND k.range_hash = q.h AND k.task_queue_id = q.i))";
  return sql;
}

}  // namespace

std::string FillIn(std::string text, const RowLayout& layout) {
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

std::string CommitSql(const RowLayout& layout, const CommitShape& shape) {
  MR_CHECK(!shape.updates_all || !(shape.makes_queues || shape.skips_locked));
  Parameters parameters;
  const std::string hashes = parameters.Next("int8[]");
  const std::string ids = parameters.Next("bytea[]");
  std::string sql = "WITH q AS MATERIALIZED (\n  SELECT * FROM unnest(" + hashes + ", " + ids;
  std::string names = "h, i, e, r, d, ";
  for (const char* type : {"int8[]", "int8[]", "bytea[]"}) sql += ", " + parameters.Next(type);
  if (!shape.updates_all) {
    sql += ", " + parameters.Next("bytea[]");
    names += "t, ";
  }
  if (layout.keeps_state()) {
    sql += ", " + parameters.Next("int8[]");
    sql += ", " + parameters.Next("bytea[]");
    names += "su, sd, ";
  }
  sql += ") WITH ORDINALITY AS u(" + names + "o))";
  const std::string sync =
      "set_config('synchronous_commit', " + parameters.Next("text") + ", true) AS sync";
  sql +=
      shape.updates_all ? UpdateAndCompare(hashes, sync) : LockAndCompare(layout, shape, ids, sync);
  std::string place;  // Of the row c.
  if (shape.creates || shape.deletes) {
    place = "(" + parameters.Next("int8[]") + ")[c.l]";
    place += ", (" + parameters.Next("bytea[]") + ")[c.l]";
  }
  // The arrays of a part, as rows c of these columns.
  const auto rows = [&parameters](std::initializer_list<const char*> types, const char* columns) {
    std::string arrays;
    for (const char* type : types) arrays += (arrays.empty() ? "" : ", ") + parameters.Next(type);
    return "mask, unnest(" + arrays + ") AS c(" + columns + ")";
  };
  if (shape.creates) {
    sql += R"(,
ins AS (
  INSERT INTO {tasks} (range_hash, task_queue_id, {pass,}task_id, data, data_encoding)
  SELECT )" +
           place + ", {c.p,}c.t, c.d, {encoding}\n  FROM " +
           rows({"int4[]", "int4[]", "int8[]", "int8[]", "bytea[]"}, "o, l, p, t, d") +
           "\n  WHERE " + Passed(shape, "c.o");
    if (shape.replaces_tasks) {
      sql += R"(
  ON CONFLICT (range_hash, task_queue_id, {pass,}task_id)
  DO UPDATE SET data = excluded.data, data_encoding = excluded.data_encoding)";
    }
    sql += ")";
  }
  if (shape.deletes) {
    sql += ",\ndel AS (\n  DELETE FROM {tasks} k USING " +
           rows({"int4[]", "int4[]", "int8[]", "int8[]", "int8[]"}, "o, l, p, f, t") +
           "\n  WHERE " + Passed(shape, "c.o") + " AND (k.range_hash, k.task_queue_id) = (" +
           place + ")\n    AND {pass} = c.p AND k.task_id >= c.f AND k.task_id <= c.t)";
  }
  if (shape.side_puts) {
    sql += R"(,
puts AS (
  INSERT INTO millrace_side_rows (range_hash, task_queue_id, layout, key, value)
  SELECT ()" +
           hashes + ")[c.o], (" + ids + ")[c.o], {layout}, c.k, c.v\n  FROM " +
           rows({"int4[]", "bytea[]", "bytea[]"}, "o, k, v") + "\n  WHERE " + Passed(shape, "c.o") +
           R"(
  ON CONFLICT (range_hash, task_queue_id, layout, key) DO UPDATE SET value = excluded.value))";
  }
  if (shape.side_deletes) {
    sql += ",\nside_del AS (\n  DELETE FROM millrace_side_rows k USING " +
           rows({"int4[]", "bytea[]"}, "o, k") + "\n  WHERE " + Passed(shape, "c.o") +
           " AND k.range_hash = (" + hashes + ")[c.o] AND k.task_queue_id = (" + ids +
           ")[c.o]\n    AND k.layout = {layout} AND k.key = c.k)";
  }
  if (layout.keeps_state()) {
    sql += R"(,
state AS (
  INSERT INTO millrace_queue_state AS k
    (range_hash, task_queue_id, layout, range_id, after_range_id, update_time, state)
  SELECT q.h, q.i, {layout}, q.r, q.e, q.su, coalesce(q.sd, ''::bytea)
  FROM mask, q WHERE )" +
           Passed(shape, "q.o::int4") + R"( AND q.r IS NOT NULL
  ON CONFLICT (range_hash, task_queue_id, layout)
  DO UPDATE SET range_id = excluded.range_id, after_range_id = excluded.after_range_id,
    update_time = excluded.update_time,
    state = CASE WHEN excluded.state = ''::bytea AND k.range_id = excluded.after_range_id
      THEN k.state ELSE excluded.state END))";
  }
  sql += shape.updates_all ? "\nSELECT q.o, 0::int8 FROM mask, q WHERE NOT mask.a AND NOT q.o = "
                             "ANY(mask.m)"
                           : "\nSELECT o, coalesce(s, 0)::int8 FROM checked WHERE NOT f";
  return FillIn(std::move(sql), layout);
}

}  // namespace millrace::store
