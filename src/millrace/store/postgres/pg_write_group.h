#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/store/postgres/pg_commit_sql.h"
#include "millrace/store/postgres/pg_values.h"
#include "millrace/store/postgres/row_layout.h"
#include "millrace/store/task_store.h"

namespace millrace::store {

// Turns queue writes into the parameters of commit statements.
//
// Thread: one at a time.
class PgWriteGroup {
 public:
  explicit PgWriteGroup(const RowLayout& layout) : layout_(layout) {}

  // Takes over what is valid among `writes`; says in `results` what is not. Both outlive the group.
  void Load(std::span<const QueueWrite> writes, std::vector<Status>& results);

  // Writes that go into one statement: at most one of each queue. Later rounds hold the later
  // writes of queues that have several.
  struct Round {
    std::vector<std::size_t> writes;  // Indexes, in the order of the queues' keys.
    bool synced = false;
    CommitShape shape;
  };
  [[nodiscard]] const std::vector<Round>& rounds() const { return rounds_; }

  // The round of one write alone.
  [[nodiscard]] Round Alone(std::size_t write) const;

  // For the statement of `shape`, which is the round's or one that cures something.
  // `synchronous_commit`: the setting's value for this round.
  [[nodiscard]] PgParams Parameters(const Round& round, const CommitShape& shape,
                                    std::string_view synchronous_commit);

 private:
  // Rows of one subqueue whose ids follow each other: deleted by one look-up.
  struct Run {
    Subqueue subqueue = 0;
    std::int64_t pass = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  // One write, encoded as far as it can fail.
  struct Item {
    RowLayout::Place place;
    std::vector<const TaskRow*> creates;  // Without those that are deleted or replaced here.
    std::vector<std::string> data;        // Of creates.
    std::vector<Run> deletes;
    std::vector<const SideRow*> side_puts;
    std::vector<const std::string*> side_deletes;  // Without those that are put here.
  };
  Status LoadOne(const QueueWrite& write, Item& item);
  static std::vector<Run> RunsOf(const std::vector<TaskKey>& keys);
  void AddTo(Round& round, std::size_t write) const;

  const RowLayout& layout_;
  std::span<const QueueWrite> writes_;
  std::vector<Item> items_;
  std::vector<Round> rounds_;
};

}  // namespace millrace::store
