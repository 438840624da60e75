// QueueRuntime's peeking: reads of the store beside the engine, which they never touch.
#include <utility>

#include "millrace/queue/bytes.h"
#include "millrace/queue/queue_runtime.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kRowsPerRead = 200;
constexpr std::size_t kBytesPerRead = 2u << 20;
// A page ends after about this much, whatever was asked for.
constexpr std::size_t kPageBytesMax = 3u << 20;

std::string EncodePosition(TaskId id) {
  std::string out;
  AppendFixed64(out, static_cast<std::uint64_t>(id.value));
  return out;
}

// Fills what a peeked task says of itself from its record; false when the bytes do not parse.
bool FillFromRecord(PeekedTask* task) {
  Result<TaskRecord> record = DecodeTaskRecord(task->payload);
  if (!record.ok()) return false;
  task->record = std::move(*record);
  if (task->record.first_id.value != 0) task->first_id = task->record.first_id;
  if (task->record.enqueue_time.is_set()) task->enqueue_time = task->record.enqueue_time;
  return true;
}

}  // namespace

void QueueRuntime::Peek(PeekParams params, UniqueFunction<void(Result<PeekPage>)> done) {
  strand_.AssertCurrent();
  if (params.state == PeekState::kDead) return PeekDead(params, std::move(done));
  if (!params.after.empty() && params.after.size() != 8) {
    strand_.Post([done = std::move(done)]() mutable {
      done(Status(StatusCode::kInvalidArgument, "not a page token of this queue"));
    });
    return;
  }
  PeekRows(std::move(params), std::make_shared<PeekPage>(), 0, std::move(done));
}

void QueueRuntime::PeekRows(PeekParams params, std::shared_ptr<PeekPage> page, std::size_t scanned,
                            UniqueFunction<void(Result<PeekPage>)> done) {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return done(Status(StatusCode::kShuttingDown, "the queue is being unloaded"));
  std::uint64_t after = 0;
  if (!params.after.empty()) ByteReader(params.after).Fixed64(&after);
  const store::TaskLevel from{.pass = 0, .id = TaskId{static_cast<std::int64_t>(after) + 1}};
  env_.store.ReadTasks(
      key_, 0, from, store::TaskLevel::Max(), kRowsPerRead, kBytesPerRead, strand_,
      [this, hold = std::move(hold), params = std::move(params), page = std::move(page), scanned,
       done = std::move(done)](Result<store::TaskPage> rows) mutable {
        strand_.AssertCurrent();
        if (!rows.ok()) return done(rows.status());
        std::size_t bytes = 0;
        for (const PeekedTask& task : page->tasks) bytes += task.payload.size();
        const Instant now = strand_.clock().Now();
        for (store::TaskRow& row : rows->rows) {
          const millrace::queue::Lease* lease = leases_.Find(row.key.level.id);
          const PeekState state = lease != nullptr ? PeekState::kLeased : PeekState::kWaiting;
          ++scanned;
          params.after = EncodePosition(row.key.level.id);
          if (params.state != PeekState::kWaitingAndLeased && params.state != state) continue;
          PeekedTask& task = page->tasks.emplace_back();
          task.state = state;
          task.first_id = row.key.level.id;
          task.enqueue_time = row.create_time;
          task.expiry_time = row.expiry_time;
          task.payload = std::move(row.payload);
          if (!FillFromRecord(&task)) {
            page->tasks.pop_back();
            continue;
          }
          if (lease != nullptr) {
            task.lease_time_left = std::max(Duration::zero(), lease->deadline - now);
            task.worker_id = lease->worker_id;
          }
          bytes += task.payload.size();
          if (page->tasks.size() >= params.limit || bytes >= kPageBytesMax) {
            page->next = params.after;
            return done(std::move(*page));
          }
        }
        if (!rows->more) return done(std::move(*page));
        if (scanned >= env_.config.peek_scan_rows_max) {
          page->next = params.after;
          return done(std::move(*page));
        }
        PeekRows(std::move(params), std::move(page), scanned, std::move(done));
      });
}

void QueueRuntime::PeekDead(const PeekParams& params, UniqueFunction<void(Result<PeekPage>)> done) {
  strand_.AssertCurrent();
  exec::Gate::Holder hold = gate_.TryEnter();
  if (!hold) return done(Status(StatusCode::kShuttingDown, "the queue is being unloaded"));
  env_.store.ReadSideRows(
      key_, std::string(1, kDeadTaskKind), params.after, params.limit, strand_,
      [hold = std::move(hold), done = std::move(done)](Result<store::SidePage> rows) mutable {
        if (!rows.ok()) return done(rows.status());
        PeekPage page;
        for (const store::SideRow& row : rows->rows) {
          Result<DeadTask> dead = DecodeDeadTask(row.value);
          if (!dead.ok()) continue;
          PeekedTask& task = page.tasks.emplace_back();
          task.state = PeekState::kDead;
          task.error_message = dead->error_message;
          task.payload = dead->record;
          if (!FillFromRecord(&task)) page.tasks.pop_back();
        }
        if (rows->more) page.next = rows->rows.back().key;
        done(std::move(page));
      });
}

}  // namespace millrace::queue
