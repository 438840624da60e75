#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/store/postgres/pg_pool.h"
#include "millrace/store/postgres/pg_statements.h"
#include "millrace/store/postgres/pg_write_group.h"
#include "millrace/store/postgres/row_layout.h"
#include "millrace/store/task_store.h"

namespace millrace::store {

// TaskStore in the tables that Temporal's matching service uses, plus a few of our own. Several
// processes may share a database: a queue belongs to whoever wrote its range id last.
//
// The waiting writes of all queues are one statement in one transaction: one round trip, one
// commit. A write whose condition fails is left out by the statement itself. When another session
// sits on one queue's row for longer than lock_timeout, the group goes again without that queue;
// when the server refuses the group for a reason that lies in a row, its writes go one by one.
//
// Thread: any; calls overlap, of writes to one queue one waits for the other in the database.
// Bounds: the pool's.
// Fails: kUnavailable: surely not applied (refused, aborted, never sent, pool says no).
//   kUnknownOutcome: the connection was lost between the sending of a group and its answer.
//   DeleteQueue: the same.
// Invariants: a synced write reported ok was committed with synchronous_commit at least as strong
// as the server's default, never off.
class PostgresTaskStore final : public TaskStore {
 public:
  // Connects and checks the schema. kUnavailable: no answer; kFailedPrecondition: the schema is not
  // what it must be (schema.h). `layout`, `metrics` and `log` outlive the store.
  static Result<std::unique_ptr<PostgresTaskStore>> Open(const PostgresConfig& config,
                                                         const RowLayout& layout, Metrics& metrics,
                                                         Log& log);
  // Several stores may share a pool. The schema must be there.
  PostgresTaskStore(std::shared_ptr<PgPool> pool, const RowLayout& layout, Log& log);

  [[nodiscard]] StoreTraits traits() const override {
    return {.exclusive = false, .counts_deletes = true};
  }
  std::vector<Status> Commit(std::span<const QueueWrite> writes) override;
  Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) override;
  std::vector<Result<RangeId>> ReadRangeIds(std::span<const PhysicalQueueKey> queues) override;
  Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                             TaskLevel through, std::size_t limit, std::size_t max_bytes) override;
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                         Subqueue subqueue, TaskLevel through,
                                                         std::size_t limit) override;
  Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                std::string_view after, std::size_t limit) override;
  Result<QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override;
  Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) override;
  Status Health() override { return pool_->Health(); }

 private:
  struct Sent {
    Status status;
    std::string sqlstate;
    // By number in the round, from 0: the stored range id of those that did not pass.
    std::vector<std::optional<std::int64_t>> stored_instead;
  };

  void CommitRound(PgWriteGroup& group, const PgWriteGroup::Round& round,
                   std::span<const QueueWrite> writes, std::vector<Status>& results);
  // Asks for the range ids of those that did not pass: the message tells them.
  void FindStored(const PgWriteGroup::Round& round, std::span<const QueueWrite> writes, Sent& sent);
  // With what another try can cure cured.
  Sent SendCuring(PgWriteGroup& group, const PgWriteGroup::Round& round, CommitShape& shape);
  Sent Send(PgWriteGroup& group, const PgWriteGroup::Round& round, const CommitShape& shape);
  // A read, or anything else that may be repeated.
  Result<PgRows> Ask(const PgStatement& statement, const PgParams& params);

  const std::shared_ptr<PgPool> pool_;
  const RowLayout& layout_;
  PgStatements statements_;
  Log& log_;
};

}  // namespace millrace::store
