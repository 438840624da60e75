#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/store/types.h"

namespace millrace::store {

// Which tables, which bytes: how one kind of queue lies in the database. docs/storage_format.md
// says it in full.
//
// Thread: any; no state.
class RowLayout {
 public:
  // Where rows of a queue lie.
  struct Place {
    std::int64_t range_hash = 0;
    std::string task_queue_id;
  };
  // A task_queues row, and what a table of ours holds beside it.
  struct QueueRow {
    std::int64_t range_id = 0;
    std::string_view data;
    std::string_view encoding;
    std::optional<std::string_view> state;  // keeps_state() only.
    std::int64_t state_range_id = 0;        // The range id that wrote `state`.
    std::int64_t state_update_time = 0;
  };

  virtual ~RowLayout() = default;

  [[nodiscard]] virtual std::string_view queues_table() const = 0;
  [[nodiscard]] virtual std::string_view tasks_table() const = 0;
  // Task rows have a `pass`; without it only pass 0 can be stored.
  [[nodiscard]] virtual bool has_pass() const = 0;
  // Tells apart the side rows of two layouts that share ids.
  [[nodiscard]] virtual std::int32_t number() const = 0;
  // Owner state and update time lie in millrace_queue_state, not in `data`.
  [[nodiscard]] virtual bool keeps_state() const = 0;
  [[nodiscard]] virtual std::string_view encoding() const = 0;

  // kInvalidArgument: not a queue of this kind.
  [[nodiscard]] virtual Result<Place> PlaceOfQueue(const PhysicalQueueKey& queue) const = 0;
  // `of` = PlaceOfQueue's.
  [[nodiscard]] virtual Place PlaceOfTasks(const Place& of, Subqueue subqueue) const = 0;
  // The queue whose PlaceOfQueue has this id, if there is one.
  [[nodiscard]] virtual std::optional<PhysicalQueueKey> QueueAt(std::string_view id) const = 0;
  // Bounds of the ids of all queues of this kind, [first, end).
  [[nodiscard]] virtual std::string first_id() const = 0;
  [[nodiscard]] virtual std::string end_id() const = 0;
  // Bounds of their range hashes, both inclusive.
  [[nodiscard]] virtual std::int64_t first_hash() const = 0;
  [[nodiscard]] virtual std::int64_t last_hash() const = 0;
  // Task rows of any subqueue of the queue at `of` have its hash and an id in [id, this).
  // Empty: subqueues lie apart, each under its own place.
  [[nodiscard]] virtual std::string EndOfAllTasks(const Place& of) const = 0;

  // Replaces `data`.
  virtual void EncodeQueue(const PhysicalQueueKey& queue, const Place& place,
                           const QueueMetadata& metadata, std::string& data) const = 0;
  // What EncodeQueue has put at bytes 2 to 9 for this time; used when the rest is to be kept.
  // Empty: the update time lies elsewhere.
  [[nodiscard]] virtual std::string EncodeUpdateTime(WallTime time) const = 0;
  virtual Result<QueueMetadata> DecodeQueue(const Place& place, const QueueRow& row) const = 0;

  // Appends to `out`. kInvalidArgument: the row cannot be stored in this kind of table.
  virtual Status EncodeTask(const TaskRow& row, std::string& out) const = 0;
  // Everything but the key.
  virtual Status DecodeTask(std::string_view data, std::string_view encoding,
                            TaskRow& row) const = 0;
};

// The farm hash that Temporal spreads queues by.
std::int64_t RangeHash(std::string_view task_queue_id);

// What millrace_queue_state holds of an owner state begins with this: it ties the state to the data
// it was written with.
std::string StatePrefix(std::string_view data);
// The owner state in what it holds; "" when there is none. Nothing: it was written with other data,
// by whoever had the queue before it was deleted and made anew.
std::optional<std::string_view> OwnerStateIn(std::string_view stored, std::string_view data);

// The smallest string above all that start with `prefix`; it holds a byte below 0xff.
std::string AfterAllOf(std::string_view prefix);

// Queues of the queue service: any name, any payload, in task_queues_v2 and tasks_v2.
const RowLayout& StandaloneLayout();

}  // namespace millrace::store
