#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/store/types.h"

namespace millrace::store {

// How sure a write must be before it is reported.
enum class Durability : std::uint8_t {
  kSynced,   // On the disk (or whatever the store calls safe) before the call returns.
  kRelaxed,  // Ordered after everything reported before it; lost at worst with a power failure.
             // Never delays others.
};

// One atomic, conditional change of one queue: all of it happens, or nothing.
struct QueueWrite {
  PhysicalQueueKey queue;

  // The write happens only if the stored range id equals this. 0 = only if the queue has no
  // metadata row yet
  // (`metadata` must then be set).
  RangeId expected_range_id;

  std::vector<TaskRow> creates;  // Keys must be new; a store may overwrite an equal key silently.
  std::vector<TaskKey>
      deletes;  // Absent keys are ignored. A key both created and deleted here ends up absent.
  std::vector<SideRow> side_puts;         // Replace equal keys.
  std::vector<std::string> side_deletes;  // Absent keys are ignored. Applied before side_puts.
  std::optional<QueueMetadata>
      metadata;  // Replaces the metadata row; its range id becomes the stored one.
  // True: of `metadata` only the range id and the update time are taken over; ack levels, counts
  // and owner state stay as they are stored. A new owner takes its lease so, since the old one may
  // still write between the new one's read and this write, and what it counted must not be lost.
  // The metadata row must exist (expected range id above 0).
  bool keep_owner_state = false;
  Durability durability = Durability::kSynced;
};

struct TaskPage {
  std::vector<TaskRow> rows;  // Ascending by level.
  // True when rows may be left between the last one returned and the end of the asked range.
  bool more = false;
};

struct SidePage {
  std::vector<SideRow> rows;  // Ascending by key.
  bool more = false;
};

struct QueueEntry {
  PhysicalQueueKey key;
  QueueMetadata metadata;
};

struct QueuePage {
  std::vector<QueueEntry> queues;  // Ascending by key, in the store's own key order.
  std::string next_page_token;     // Empty = no more. Opaque; good for the life of the data.
};

// What an engine may rely on beyond the contract.
struct StoreTraits {
  // No other process can own queues of this data: an idle owner need not check that it still does.
  bool exclusive = false;
  // DeleteTasksThrough tells how many rows it deleted.
  bool counts_deletes = true;
};

// Durable home of task queues. store/contract_suite.h is the meaning of this interface; every store
// passes it.
//
// Thread: any; calls may overlap. Calls may block on I/O.
// Bounds: pages by limit and bytes; a value above 16 MiB is refused with kInvalidArgument.
// Fails:
//   kFenced: the stored range id is not the expected one; nothing changed.
//
//   kUnavailable: surely not applied; may be tried again. Also while the disk is full.
//
//   kUnknownOutcome: writes only; applied, or not, or may still be applied until the range id
//   changes.
//
//   kResourceExhausted: surely not applied; a limit of the store.
//
//   kCorruption: stored bytes of this queue are damaged.
//
//   kNotFound: ReadMetadata, DeleteQueue; no such queue.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  [[nodiscard]] virtual StoreTraits traits() const = 0;

  // Applies each write on its own condition and reports each on its own; one that fails does not
  // touch the others. Two writes of one queue in one call apply in order. Stores make the whole
  // group durable with as few syncs as they can; when any of the group is kSynced, all of it is.
  virtual std::vector<Status> Commit(std::span<const QueueWrite> writes) = 0;

  virtual Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) = 0;

  // The stored range id of each, in their order, each on its own: kNotFound, kCorruption where the
  // range id itself cannot be read. A store that can asks for all of them at once; this one reads
  // the metadata of each.
  virtual std::vector<Result<RangeId>> ReadRangeIds(std::span<const PhysicalQueueKey> queues);

  // Rows with from <= level <= through, at most `limit` rows (> 0) and, after the first, at most
  // `max_bytes` of payload. An unknown queue has no rows.
  virtual Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue,
                                     TaskLevel from, TaskLevel through, std::size_t limit,
                                     std::size_t max_bytes) = 0;

  // Deletes up to `limit` of the rows with level <= through, lowest first, and returns how many.
  // Not conditional: finished tasks stay finished whoever owns the queue. Not synced. A store that
  // cannot tell the number deletes all of them and returns nullopt.
  virtual Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                                 Subqueue subqueue,
                                                                 TaskLevel through,
                                                                 std::size_t limit) = 0;

  // Side rows whose key starts with `prefix` and is > `after` (empty = from the start), at most
  // `limit`.
  virtual Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                        std::string_view after, std::size_t limit) = 0;

  // Pages through the queues that have a metadata row. Rows added or removed meanwhile may or may
  // not be seen; others are seen exactly once. kInvalidArgument: not a token of this store.
  virtual Result<QueuePage> ListQueues(std::string_view page_token, std::size_t limit) = 0;

  // Deletes the queue with all its rows if its range id is the expected one. Synced.
  virtual Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) = 0;

  // Ok when the store accepts writes, else why not. Cheap; never blocks on I/O. Drives the health
  // answer.
  virtual Status Health() = 0;
};

}  // namespace millrace::store
