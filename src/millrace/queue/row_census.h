#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::queue {

// What a count of the stored rows found, and the totals it must agree with.
struct RowCounts {
  std::int64_t task_rows = 0;  // Waiting and leased tasks.
  backlog::Totals totals{};    // As of the same moment.
  std::int64_t dead_rows = 0;
  std::int64_t dead_total = 0;  // The counter, as of the moment of dead_rows.
};

// Counts the rows of one queue page by page, while the queue goes on working, as they were when the
// count began: a row that ends meanwhile, before its page was read, is still counted; one that is
// new since then is not.
//
// Thread: the queue's strand. Bounds: one page in memory; the keys that end between two pages.
// Fails: store errors; kUnavailable when a write with unknown outcome came up meanwhile, or tasks
// died too fast to count (count again).
class RowCensus {
 public:
  using Done = UniqueFunction<void(Result<RowCounts>)>;

  RowCensus(store::PhysicalQueueKey key, exec::Strand& strand, store::AsyncTaskStore& store,
            const backlog::BacklogManager& manager, exec::Gate& gate);

  // `done` runs on the strand. Once.
  void Start(Done done);
  // These rows are gone by a write that is certain.
  void OnEnded(const std::vector<store::TaskKey>& tasks);
  // A write came to an end with an unknown outcome.
  void OnUncertain();

 private:
  void ReadTasks(store::TaskLevel from);
  void ReadDead(std::string after);
  void Finish(const Status& status);

  const store::PhysicalQueueKey key_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  const backlog::BacklogManager& manager_;
  exec::Gate& gate_;
  Done done_;
  RowCounts counts_;
  store::TaskLevel through_;
  store::TaskLevel next_;             // Rows below were counted.
  std::set<store::TaskLevel> ended_;  // Ended since the start, not below next_.
  bool uncertain_ = false;
  int dead_tries_ = 0;
};

}  // namespace millrace::queue
