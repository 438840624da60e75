#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "millrace/store/postgres/pg_statements.h"
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
    bool makes_queues = false;
  };
  [[nodiscard]] const std::vector<Round>& rounds() const { return rounds_; }

  // `synchronous_commit`: the setting's value for this round.
  [[nodiscard]] PgParams Parameters(const Round& round, std::string_view synchronous_commit);

 private:
  // One write, encoded as far as it can fail.
  struct Item {
    RowLayout::Place place;
    std::vector<const TaskRow*> creates;  // Without those that are deleted or replaced here.
    std::vector<std::string> data;        // Of creates.
    std::vector<const SideRow*> side_puts;
  };
  Status LoadOne(const QueueWrite& write, Item& item);

  const RowLayout& layout_;
  std::span<const QueueWrite> writes_;
  std::vector<Item> items_;
  std::vector<Round> rounds_;
};

}  // namespace millrace::store
