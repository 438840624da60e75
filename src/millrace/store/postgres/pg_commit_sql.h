#pragma once

#include <compare>
#include <string>

#include "millrace/store/postgres/row_layout.h"

namespace millrace::store {

// What a group of writes needs of its statement. Parts that it has no rows for are left out: to
// start and end the nodes of a plan costs more than most groups' rows do.
struct CommitShape {
  // Every write of the group replaces the metadata row of a queue that is there, as an owner's
  // usual writes do: the range ids are compared by the very update of those rows. Else the rows are
  // locked first. Not together with makes_queues or skips_locked.
  bool updates_all = false;
  bool makes_queues = false;    // A write expects that its queue is not there yet.
  bool replaces_tasks = false;  // A created key may be there already.
  bool skips_locked = false;    // A queue locked by another session counts as not there.
  bool creates = false;
  bool deletes = false;
  bool side_puts = false;
  bool side_deletes = false;

  friend auto operator<=>(const CommitShape&, const CommitShape&) = default;
};

// A group of writes, each of another queue, as one statement: compares the queues' range ids with
// their rows locked in the order of their keys, and writes the rows of those queues that passed.
// Answers with one row per queue that did not: its number from 1, and (not with updates_all) the
// stored range id, 0 = none.
//
// Parameters, in this order; task and side rows name their queue by its number in the group:
//   queues, in the order of their keys: range hash, id, expected range id, new range id (null: no
//     metadata), data (null: keep)
//   unless updates_all: update time for data that is kept
//   with state: update time of each queue (null: no metadata), state (null: keep)
//   synchronous_commit
//   creates or deletes: places of tasks: range hash, id
//   creates: queue, number of the place, pass, task id, data
//   deletes, as runs of ids: queue, number of the place, pass, first and last task id
//   side_puts: queue, key, value
//   side_deletes: queue, key
std::string CommitSql(const RowLayout& layout, const CommitShape& shape);

// `text` with {queues}, {tasks} and the like replaced by what the layout says.
std::string FillIn(std::string text, const RowLayout& layout);

}  // namespace millrace::store
