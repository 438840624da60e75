#pragma once

#include <string>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/store/postgres/pg_connection.h"

namespace millrace::store {

// Version of the tables with our prefix. Tables that Temporal has as well carry none of ours: they
// are used as they are.
inline constexpr int kSchemaVersion = 2;

struct SchemaPlan {
  int found_version = 0;                // Of our own tables; 0 = none.
  std::vector<std::string> statements;  // What is missing, in order; empty = nothing to do.
};

// What a migration would do. kFailedPrecondition: a table is there but has other columns or another
// primary key, or a newer build has been here.
Result<SchemaPlan> PlanSchema(PgConnection& connection);

// Does it, in one transaction; of several at a time, one after the other. Nothing happens on error.
Status ApplySchema(PgConnection& connection, const SchemaPlan& plan);

// kFailedPrecondition unless everything is there. The message says what to run.
Status CheckSchema(PgConnection& connection);

}  // namespace millrace::store
