#pragma once

#include <map>

#include "millrace/base/mutex.h"
#include "millrace/store/postgres/pg_commit_sql.h"
#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/row_layout.h"

namespace millrace::store {

// The SQL of one layout. What each parameter is stands in pg_statements.cc and pg_commit_sql.h,
// beside the text.
//
// Thread: any.
class PgStatements {
 public:
  explicit PgStatements(const RowLayout& layout);

  // Made when it is first asked for, and kept.
  const PgStatement& Commit(const CommitShape& shape);

  PgStatement read_queue;
  PgStatement read_range_ids;
  PgStatement read_tasks;
  PgStatement read_side_rows;
  PgStatement list_queues;
  PgStatement delete_tasks;
  PgStatement delete_queue;

 private:
  const RowLayout& layout_;
  Mutex mutex_;
  std::map<CommitShape, PgStatement> commits_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
