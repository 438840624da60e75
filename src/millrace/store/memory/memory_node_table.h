#pragma once

#include <map>
#include <string>

#include "millrace/base/mutex.h"
#include "millrace/base/time.h"
#include "millrace/store/node_table.h"

namespace millrace::store {

// A NodeTable in memory, for tests and the simulator: `clock` is the store's clock.
class MemoryNodeTable final : public NodeTable {
 public:
  explicit MemoryNodeTable(const Clock& clock) : clock_(clock) {}

  Result<NodeRows> Beat(const NodeBeat& beat, bool first) override;
  Status Remove(const std::string& id, std::uint64_t incarnation) override;

 private:
  struct Row {
    NodeBeat beat;
    WallTime started;
    Instant written;
    Instant expires;
  };

  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Row> rows_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
