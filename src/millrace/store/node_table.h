#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/strand.h"

// The small table through which the nodes that share a store know of each other.
namespace millrace::store {

enum class NodeState : std::uint8_t { kServing, kLeaving };

// What a node says of itself each time.
struct NodeBeat {
  std::string id;
  std::uint64_t incarnation = 0;  // Of the process: a new one under the same id replaces the old.
  std::string address;
  NodeState state = NodeState::kServing;
  // The set of members (Members::fingerprint) for which the node has given up all queues that are
  // not its own. 0 = none.
  std::uint64_t applied = 0;
  std::int64_t queues = 0;  // In memory; for people.
  Duration expiry{};        // How long this is good for, by the store's clock.
};

struct NodeRow {
  std::string id;
  std::uint64_t incarnation = 0;
  std::string address;
  NodeState state = NodeState::kServing;
  std::uint64_t applied = 0;
  std::int64_t queues = 0;
  WallTime started;  // When the process was first seen. The store's clock, as all that follows.
  Duration age{};    // Since its last beat.
  Duration expires_in{};  // Above 0.
};

// What a beat is answered with.
struct NodeRows {
  WallTime now;               // The store's clock.
  std::vector<NodeRow> rows;  // Those that are alive, in the order of their ids.
};

// Thread: any. Blocks.
// Fails: kUnavailable; the beat may have been written all the same.
// Invariants: beats of all nodes take turns: of two, one sees what the other wrote. Only the
// store's clock decides which rows are alive, so the nodes' own clocks may differ as they like.
class NodeTable {
 public:
  virtual ~NodeTable() = default;

  // Writes the node's row, unless another incarnation has taken its id over since and is alive
  // (`first` takes it over in any case), and answers with everybody's. `first` also removes other
  // rows with this address: whoever had it before does not listen there any more.
  virtual Result<NodeRows> Beat(const NodeBeat& beat, bool first) = 0;

  // Takes the row away, if it is still this incarnation's.
  virtual Status Remove(const std::string& id, std::uint64_t incarnation) = 0;
};

// The same, without blocking. `done` runs on the strand, never inside the call.
// Thread: any; one call of a node at a time.
class AsyncNodeTable {
 public:
  virtual ~AsyncNodeTable() = default;
  virtual void Beat(NodeBeat beat, bool first, exec::Strand& strand,
                    UniqueFunction<void(Result<NodeRows>)> done) = 0;
  virtual void Remove(std::string id, std::uint64_t incarnation, exec::Strand& strand,
                      UniqueFunction<void(Status)> done) = 0;
};

}  // namespace millrace::store
