#include "millrace/queue/row_census.h"

#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/queue/lease_book.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kRowsPerRead = 1'000;
constexpr std::size_t kBytesPerRead = 4u << 20;
constexpr int kDeadTriesMax = 5;

std::int64_t DeadTotal(const backlog::BacklogManager& manager) {
  return manager.totals()[static_cast<std::size_t>(backlog::Total::kDead)];
}

}  // namespace

RowCensus::RowCensus(store::PhysicalQueueKey key, exec::Strand& strand,
                     store::AsyncTaskStore& store, const backlog::BacklogManager& manager,
                     exec::Gate& gate)
    : key_(std::move(key)), strand_(strand), store_(store), manager_(manager), gate_(gate) {}

void RowCensus::Start(Done done) {
  strand_.AssertCurrent();
  done_ = std::move(done);
  counts_.totals = manager_.totals();
  // Rows of a write in flight are above this, since it moves only when a write has come to its end.
  through_ = {.pass = 0, .id = manager_.InternalStatus().front().max_read_level};
  ReadTasks({.pass = 0, .id = TaskId{1}});
}

void RowCensus::ReadTasks(store::TaskLevel from) {
  strand_.AssertCurrent();
  next_ = from;
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return Finish(Status(StatusCode::kShuttingDown, "the queue is being unloaded"));
  store_.ReadTasks(key_, 0, from, through_, kRowsPerRead, kBytesPerRead, strand_,
                   [this, hold = std::move(hold)](Result<store::TaskPage> page) {
                     strand_.AssertCurrent();
                     if (!page.ok()) return Finish(page.status());
                     if (uncertain_) {
                       return Finish(Status(StatusCode::kUnavailable,
                                            "a write with unknown outcome came up; count again"));
                     }
                     for (const store::TaskRow& row : page->rows) {
                       ++counts_.task_rows;
                       ended_.erase(row.key.level);
                     }
                     const store::TaskLevel last =
                         page->more ? page->rows.back().key.level : through_;
                     // What is left up to here had ended before the page was read, and after the
                     // count began.
                     const auto end = ended_.upper_bound(last);
                     counts_.task_rows += std::distance(ended_.begin(), end);
                     ended_.erase(ended_.begin(), end);
                     if (page->more)
                       return ReadTasks({.pass = last.pass, .id = TaskId{last.id.value + 1}});
                     next_ = store::TaskLevel::Max();
                     counts_.dead_total = DeadTotal(manager_);
                     ReadDead(std::string());
                   });
}

void RowCensus::ReadDead(std::string after) {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return Finish(Status(StatusCode::kShuttingDown, "the queue is being unloaded"));
  store_.ReadSideRows(
      key_, std::string(1, kDeadTaskKind), std::move(after), kRowsPerRead, strand_,
      [this, hold = std::move(hold)](Result<store::SidePage> page) {
        strand_.AssertCurrent();
        if (!page.ok()) return Finish(page.status());
        counts_.dead_rows += static_cast<std::int64_t>(page->rows.size());
        if (page->more) return ReadDead(page->rows.back().key);
        const std::int64_t now = DeadTotal(manager_);
        if (now == counts_.dead_total && !uncertain_) return Finish(OkStatus());
        if (++dead_tries_ == kDeadTriesMax || uncertain_) {
          return Finish(Status(StatusCode::kUnavailable, "tasks die faster than they are counted"));
        }
        counts_.dead_total = now;
        counts_.dead_rows = 0;
        ReadDead(std::string());
      });
}

void RowCensus::OnEnded(const std::vector<store::TaskKey>& tasks) {
  strand_.AssertCurrent();
  for (const store::TaskKey& task : tasks) {
    if (MR_MUTANT(census_misses_ended_rows)) return;
    if (task.level >= next_ && task.level <= through_) ended_.insert(task.level);
  }
}

void RowCensus::OnUncertain() { uncertain_ = true; }

void RowCensus::Finish(const Status& status) {
  Done done = std::move(done_);
  if (status.ok()) {
    done(counts_);
  } else {
    done(status);
  }
}

}  // namespace millrace::queue
