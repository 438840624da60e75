#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "millrace/sim_world/judge.h"
#include "millrace/store/memory/memory_task_store.h"
#include "millrace/store/task_store.h"

namespace millrace::sim {

// What one queue looks like in the store.
struct QueueImage {
  store::QueueMetadata metadata;
  std::map<store::TaskKey, store::TaskRow> rows;
  std::map<std::string, std::string> side_rows;
};

// What one applied call changed.
struct AppliedChange {
  const store::PhysicalQueueKey& queue;
  const QueueImage& after;
  std::vector<const store::TaskRow*> created;
  std::vector<store::TaskRow> removed;
  bool metadata_written = false;
  bool synced = false;
  // Deletion below a level, which nobody waits for, and which a power failure may undo.
  bool garbage_collection = false;
};

// Follows the truth: called for each change that took effect, in order.
class StoreWatcher {
 public:
  virtual ~StoreWatcher() = default;
  virtual void OnApplied(const AppliedChange& change) = 0;
  // What was not synced is gone. `images`: what is left.
  virtual void OnPowerLoss(const std::map<store::PhysicalQueueKey, QueueImage>& images) = 0;
};

// The one durable store of a simulation: a MemoryTaskStore that every simulated host reaches
// through a SimStore. It keeps its own picture of what was applied and checks on every change what
// must hold for any owner:
//   range ids only grow, by one at a time, or to the first block above all used ids when the size
//   of blocks is changed; a write lands only under the stored range id; ids of created rows were
//   never used before in their queue and lie in the block of the range id that wrote them; stored
//   ack levels never go back; row counts agree with the store's own.
//
// Thread: one at a time.
class AuditedStore final : public store::TaskStore {
 public:
  struct Rules {
    std::vector<std::int64_t> range_sizes;  // Those that owners use.
  };

  AuditedStore(Judge& judge, StoreWatcher& watcher, Rules rules);

  [[nodiscard]] store::StoreTraits traits() const override { return memory_->traits(); }
  std::vector<Status> Commit(std::span<const store::QueueWrite> writes) override;
  Result<store::QueueMetadata> ReadMetadata(const store::PhysicalQueueKey& queue) override;
  Result<store::TaskPage> ReadTasks(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                                    store::TaskLevel from, store::TaskLevel through,
                                    std::size_t limit, std::size_t max_bytes) override;
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const store::PhysicalQueueKey& queue,
                                                         store::Subqueue subqueue,
                                                         store::TaskLevel through,
                                                         std::size_t limit) override;
  Result<store::SidePage> ReadSideRows(const store::PhysicalQueueKey& queue,
                                       std::string_view prefix, std::string_view after,
                                       std::size_t limit) override;
  Result<store::QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override;
  Status DeleteQueue(const store::PhysicalQueueKey& queue, RangeId expected_range_id) override;
  Status Health() override { return memory_->Health(); }

  // The machine under the store loses power: all changes after the last synced one are undone.
  void LosePower();

  // Null: no such queue.
  [[nodiscard]] const QueueImage* Image(const store::PhysicalQueueKey& queue) const;
  [[nodiscard]] const std::map<store::PhysicalQueueKey, QueueImage>& images() const {
    return images_;
  }
  // Compares the picture with what the store answers.
  void CheckAgainstStore();

 private:
  struct Gc {
    store::PhysicalQueueKey queue;
    store::Subqueue subqueue;
    store::TaskLevel through;
    std::size_t limit;
  };
  using Entry = std::variant<store::QueueWrite, Gc>;
  using Images = std::map<store::PhysicalQueueKey, QueueImage>;

  void CheckWrite(const store::QueueWrite& write);
  [[nodiscard]] bool MayFollow(const QueueImage* image, std::int64_t range_id) const;
  [[nodiscard]] bool InBlock(std::int64_t id, std::int64_t range_id,
                             const store::QueueWrite& write) const;
  static std::vector<store::TaskRow> ApplyTo(Images& images, const store::QueueWrite& write);
  static std::vector<store::TaskRow> ApplyTo(Images& images, const Gc& gc);
  void Record(Entry entry, bool synced);

  Judge& judge_;
  StoreWatcher& watcher_;
  const Rules rules_;
  std::unique_ptr<store::MemoryTaskStore> memory_;
  Images images_;
  Images synced_images_;
  std::vector<Entry> unsynced_;
  // Every id ever created, per queue and subqueue.
  std::map<store::PhysicalQueueKey, std::set<store::TaskKey>> used_;
};

}  // namespace millrace::sim
