#pragma once

#include <memory>
#include <string>

#include "millrace/base/metrics.h"
#include "millrace/store/node_table.h"
#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/pg_counters.h"
#include "millrace/store/postgres/postgres_config.h"

namespace millrace::store {

// The node table in PostgreSQL (millrace_nodes). A beat is one round trip; all beats of a database
// take turns by an advisory lock, so each sees what the ones before it wrote.
//
// Thread: one at a time. Blocks for a few seconds at most (`answer_within`, and as long to
// connect). Bounds: one connection, apart from the pool's, made again when it is lost.
class PgNodeTable final : public NodeTable {
 public:
  PgNodeTable(PostgresConfig config, Duration answer_within);

  Result<NodeRows> Beat(const NodeBeat& beat, bool first) override;
  Status Remove(const std::string& id, std::uint64_t incarnation) override;

 private:
  PgReply Run(const std::string& sql);

  const PostgresConfig config_;
  const Duration answer_within_;
  PgCounters counters_;  // Apart from the task store's: these statements are not the tasks'.
  std::unique_ptr<PgConnection> connection_;
  // What the last beat said; one that says the same need not be synced.
  std::uint64_t written_applied_ = 0;
  NodeState written_state_ = NodeState::kServing;
};

}  // namespace millrace::store
