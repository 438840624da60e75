#pragma once

#include <array>
#include <cstddef>

#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/row_layout.h"

namespace millrace::store {

// The SQL of one layout. What each parameter is stands in pg_statements.cc, beside the text.
//
// Thread: any; constant after construction.
class PgStatements {
 public:
  explicit PgStatements(const RowLayout& layout);

  // A group of writes, each of another queue, as one statement:
  //   locks the queues' rows in the order of their keys, compares the range ids, and writes the
  //   rows of those queues that passed. Answers with one row per queue that did not: its number
  //   from 1, and the stored range id (0 = none).
  struct CommitShape {
    bool makes_queues = false;    // A write expects that its queue is not there yet.
    bool replaces_tasks = false;  // A created key may be there already.
    bool skips_locked = false;    // A queue locked by another session counts as not there.
  };
  [[nodiscard]] const PgStatement& Commit(CommitShape shape) const;

  PgStatement read_queue;
  PgStatement read_tasks;
  PgStatement read_side_rows;
  PgStatement list_queues;
  PgStatement delete_tasks;
  PgStatement delete_queue;

 private:
  std::array<PgStatement, 8> commits_;
};

}  // namespace millrace::store
