#include "millrace/store/postgres/schema.h"

#include <chrono>
#include <map>
#include <string_view>

namespace millrace::store {
namespace {

constexpr Duration kPatience = std::chrono::minutes(1);

struct Column {
  std::string_view name;
  std::string_view type;  // As format_type says it, without a length.
};

struct Table {
  std::string_view name;
  std::vector<Column> columns;
  std::string_view primary_key;
  bool ours;
};

const std::vector<Table>& Tables() {
  static const std::vector<Table> tables = {
      {"task_queues",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"range_id", "bigint"},
        {"data", "bytea"},
        {"data_encoding", "character varying"}},
       "range_hash, task_queue_id",
       false},
      {"tasks",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"task_id", "bigint"},
        {"data", "bytea"},
        {"data_encoding", "character varying"}},
       "range_hash, task_queue_id, task_id",
       false},
      {"task_queues_v2",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"range_id", "bigint"},
        {"data", "bytea"},
        {"data_encoding", "character varying"}},
       "range_hash, task_queue_id",
       false},
      {"tasks_v2",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"pass", "bigint"},
        {"task_id", "bigint"},
        {"data", "bytea"},
        {"data_encoding", "character varying"}},
       "range_hash, task_queue_id, pass, task_id",
       false},
      {"millrace_schema",
       {{"version", "integer"}, {"applied_at", "timestamp with time zone"}},
       "version",
       true},
      {"millrace_side_rows",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"layout", "integer"},
        {"key", "bytea"},
        {"value", "bytea"}},
       "range_hash, task_queue_id, layout, key",
       true},
      {"millrace_queue_state",
       {{"range_hash", "bigint"},
        {"task_queue_id", "bytea"},
        {"layout", "integer"},
        {"range_id", "bigint"},
        {"after_range_id", "bigint"},
        {"update_time", "bigint"},
        {"state", "bytea"}},
       "range_hash, task_queue_id, layout",
       true},
      {"millrace_nodes",
       {{"id", "text"},
        {"incarnation", "bigint"},
        {"address", "text"},
        {"state", "integer"},
        {"applied", "bigint"},
        {"queues", "bigint"},
        {"started_at", "timestamp with time zone"},
        {"beat_at", "timestamp with time zone"},
        {"expires_at", "timestamp with time zone"}},
       "id",
       true},
      {"millrace_probe",
       {{"id", "integer"}, {"written_at", "timestamp with time zone"}, {"filler", "bytea"}},
       "id",
       true},
  };
  return tables;
}

std::string CreateTable(const Table& table) {
  std::string sql = "CREATE TABLE IF NOT EXISTS " + std::string(table.name) + " (";
  for (const Column& column : table.columns) {
    // The length is Temporal's.
    const std::string length = column.type == "character varying" ? "(16)" : "";
    sql += std::string(column.name) + " " + std::string(column.type) + length + " NOT NULL, ";
  }
  return sql + "PRIMARY KEY (" + std::string(table.primary_key) + "))";
}

struct Found {
  std::map<std::string, std::string, std::less<>> columns;  // Name to type.
  std::string primary_key;
};

Result<std::map<std::string, Found, std::less<>>> FindTables(PgConnection& connection) {
  std::string names;
  for (const Table& table : Tables()) {
    names += (names.empty() ? "'" : ", '") + std::string(table.name) + "'";
  }
  const PgReply reply = connection.RunText(
      "SELECT n.name, a.attname, format_type(a.atttypid, NULL), coalesce((SELECT "
      "pg_get_constraintdef(c.oid) FROM pg_constraint c WHERE c.conrelid = n.rel AND c.contype = "
      "'p'), '') FROM (SELECT name, to_regclass(name) AS rel FROM unnest(ARRAY[" +
          names +
          "]) name) n JOIN pg_attribute a ON a.attrelid = n.rel WHERE a.attnum > 0 AND NOT "
          "a.attisdropped",
      kPatience);
  if (!reply.status.ok()) return reply.status;
  std::map<std::string, Found, std::less<>> found;
  for (int row = 0; row < reply.rows.size(); ++row) {
    Found& table = found[std::string(reply.rows.Bytes(row, 0))];
    table.columns[std::string(reply.rows.Bytes(row, 1))] = reply.rows.Bytes(row, 2);
    table.primary_key = reply.rows.Bytes(row, 3);
  }
  return found;
}

Status CompareTable(const Table& table, const Found& found) {
  const auto differs = [&](const std::string& how) {
    return Status(StatusCode::kFailedPrecondition,
                  "table " + std::string(table.name) + " is there, but " + how);
  };
  for (const Column& column : table.columns) {
    const auto it = found.columns.find(column.name);
    if (it == found.columns.end()) return differs("has no column " + std::string(column.name));
    if (it->second != column.type) {
      return differs("its column " + std::string(column.name) + " is " + it->second + ", not " +
                     std::string(column.type));
    }
  }
  if (found.primary_key != "PRIMARY KEY (" + std::string(table.primary_key) + ")") {
    return differs("its primary key is not (" + std::string(table.primary_key) + ")");
  }
  return {};
}

}  // namespace

Result<SchemaPlan> PlanSchema(PgConnection& connection) {
  const auto found = FindTables(connection);
  if (!found.ok()) return found.status();
  SchemaPlan plan;
  if (found->contains("millrace_schema")) {
    const PgReply reply =
        connection.RunText("SELECT coalesce(max(version), 0) FROM millrace_schema", kPatience);
    if (!reply.status.ok()) return reply.status;
    plan.found_version = std::stoi(std::string(reply.rows.Bytes(0, 0)));
  }
  if (plan.found_version > kSchemaVersion) {
    return Status(StatusCode::kFailedPrecondition,
                  "the database has schema version " + std::to_string(plan.found_version) +
                      ", made by a newer build; this one knows " + std::to_string(kSchemaVersion));
  }
  for (const Table& table : Tables()) {
    const auto it = found->find(table.name);
    if (it == found->end()) {
      plan.statements.push_back(CreateTable(table));
    } else {
      MR_RETURN_IF_ERROR(CompareTable(table, it->second));
    }
  }
  if (plan.found_version < kSchemaVersion) {
    plan.statements.push_back("INSERT INTO millrace_schema (version, applied_at) VALUES (" +
                              std::to_string(kSchemaVersion) + ", now()) ON CONFLICT DO NOTHING");
  }
  return plan;
}

Status ApplySchema(PgConnection& connection, const SchemaPlan& plan) {
  if (plan.statements.empty()) return {};
  // One message is one transaction. The lock's number is ours alone, so migrations take turns.
  std::string sql = "SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(5571860274918231)";
  for (const std::string& statement : plan.statements) sql += "; " + statement;
  return connection.RunText("BEGIN; " + sql + "; COMMIT", kPatience).status;
}

Status CheckSchema(PgConnection& connection) {
  const Result<SchemaPlan> plan = PlanSchema(connection);
  if (!plan.ok()) return plan.status();
  if (plan->statements.empty()) return {};
  return {StatusCode::kFailedPrecondition,
          plan->found_version == 0
              ? "the database has not been prepared: run millrace store migrate"
              : "tables are missing in the database: run millrace store migrate"};
}

}  // namespace millrace::store
