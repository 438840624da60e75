#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/base/check.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/random.h"
#include "millrace/exec/manual_executor.h"
#include "millrace/exec/strand.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim/sim_store.h"
#include "millrace/store/memory/memory_task_store.h"

namespace millrace::backlog::testing {

// Counts store calls, and gives chosen ones a fault.
class CountingFaults final : public sim::FaultPlan {
 public:
  sim::Fault Next(sim::StoreOp op) override {
    ++calls[op];
    ++total;
    if (every) {
      if (const auto fault = every(op)) return *fault;
    }
    auto& queue = next[op];
    if (queue.empty()) return {};
    const sim::Fault fault = queue.front();
    queue.erase(queue.begin());
    return fault;
  }
  void Push(sim::StoreOp op, sim::FaultKind kind, int times = 1,
            Duration late_by = std::chrono::seconds(2)) {
    for (int i = 0; i < times; ++i) next[op].push_back({.kind = kind, .late_by = late_by});
  }

  std::map<sim::StoreOp, int> calls;
  int total = 0;
  std::map<sim::StoreOp, std::vector<sim::Fault>> next;
  std::function<std::optional<sim::Fault>(sim::StoreOp)> every;
};

// Keeps counters by name and labels.
class TestMetrics final : public Metrics {
 public:
  Counter& GetCounter(std::string_view name, std::string_view,
                      const MetricLabels& labels) override {
    std::string full(name);
    for (const auto& [label, value] : labels) full += "|" + label + "=" + value;
    return counters_[full];
  }
  Gauge& GetGauge(std::string_view name, std::string_view help,
                  const MetricLabels& labels) override {
    return NullMetrics().GetGauge(name, help, labels);
  }
  Histogram& GetHistogram(std::string_view name, std::string_view help,
                          const std::vector<double>& bounds, const MetricLabels& labels) override {
    return NullMetrics().GetHistogram(name, help, bounds, labels);
  }
  std::uint64_t Value(const std::string& name) {
    const auto it = counters_.find("millrace_backlog_" + name);
    MR_CHECK(it != counters_.end());
    return it->second.value;
  }

 private:
  struct TestCounter final : Counter {
    void Add(std::uint64_t n) override { value += n; }
    std::uint64_t value = 0;
  };
  std::map<std::string, TestCounter> counters_;
};

// A store whose task rows or metadata are damaged from some time on.
class DamagedStore final : public store::TaskStore {
 public:
  explicit DamagedStore(store::TaskStore& base) : base_(base) {}
  bool tasks_damaged = false;
  bool writes_damaged = false;
  std::vector<store::Durability> durabilities;  // Of the writes that came, in order.

  [[nodiscard]] store::StoreTraits traits() const override { return base_.traits(); }
  std::vector<Status> Commit(std::span<const store::QueueWrite> writes) override {
    for (const store::QueueWrite& write : writes) durabilities.push_back(write.durability);
    if (writes_damaged) return std::vector<Status>(writes.size(), Damage());
    return base_.Commit(writes);
  }
  Result<store::QueueMetadata> ReadMetadata(const store::PhysicalQueueKey& queue) override {
    return base_.ReadMetadata(queue);
  }
  Result<store::TaskPage> ReadTasks(const store::PhysicalQueueKey& queue, store::Subqueue subqueue,
                                    store::TaskLevel from, store::TaskLevel through,
                                    std::size_t limit, std::size_t max_bytes) override {
    if (tasks_damaged) return Damage();
    return base_.ReadTasks(queue, subqueue, from, through, limit, max_bytes);
  }
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const store::PhysicalQueueKey& queue,
                                                         store::Subqueue subqueue,
                                                         store::TaskLevel through,
                                                         std::size_t limit) override {
    return base_.DeleteTasksThrough(queue, subqueue, through, limit);
  }
  Result<store::SidePage> ReadSideRows(const store::PhysicalQueueKey& queue,
                                       std::string_view prefix, std::string_view after,
                                       std::size_t limit) override {
    return base_.ReadSideRows(queue, prefix, after, limit);
  }
  Result<store::QueuePage> ListQueues(std::string_view token, std::size_t limit) override {
    return base_.ListQueues(token, limit);
  }
  Status DeleteQueue(const store::PhysicalQueueKey& queue, RangeId expected) override {
    return base_.DeleteQueue(queue, expected);
  }
  Status Health() override { return base_.Health(); }

 private:
  static Status Damage() { return {StatusCode::kCorruption, "damaged"}; }
  store::TaskStore& base_;
};

// One durable store and its time, shared by all owners of a test.
struct World {
  World() = default;
  // Over a store that is somewhere else. `name`: a queue that is not in it yet.
  World(store::TaskStore& over, std::string name) : durable(over), key{"ns", std::move(name), 0} {}

  exec::ManualExecutor executor;
  store::MemoryTaskStore memory;
  store::TaskStore& durable = memory;
  CountingFaults faults;
  SeededRandom random{7};
  NullLog log;
  TestMetrics registry;
  BacklogMetrics metrics = BacklogMetrics::Create(registry);
  store::PhysicalQueueKey key{"ns", "queue", 0};

  std::vector<store::TaskRow> Rows() {
    auto page = durable.ReadTasks(key, 0, store::TaskLevel::Min(), store::TaskLevel::Max(),
                                  1'000'000, ~std::size_t{0});
    return std::move(page->rows);
  }
  store::QueueMetadata Metadata() { return durable.ReadMetadata(key).value(); }
  Totals StoredTotals() { return DecodeOwnerState(Metadata().owner_state)->totals; }
};

// One owner of the queue: a manager and the layer above it.
class QueueOwner final : public BacklogListener {
 public:
  QueueOwner(World& world, const BacklogConfig& config, sim::FaultPlan* plan = nullptr,
             bool exclusive = true, store::TaskStore* durable = nullptr)
      : world_(world),
        strand_(world.executor),
        store_(world.executor, durable != nullptr ? *durable : world.durable,
               plan != nullptr ? *plan : world.faults) {
    store_.set_traits({.exclusive = exclusive, .counts_deletes = true});
    watch_ = std::make_unique<OwnerWatch>(store_, world.executor, config.update_interval);
    manager_ = std::make_unique<BacklogManager>(world.key, config, strand_, store_, *watch_,
                                                world.random, world.metrics, world.log, *this);
  }
  ~QueueOwner() override { Destroy(); }

  // Runs on the strand, and then all that follows at once.
  void Run(std::function<void(BacklogManager&)> step) {
    strand_.Post([this, step = std::move(step)] { step(*manager_); });
    world_.executor.RunUntilIdle();
  }
  template <typename T>
  T Ask(std::function<T(BacklogManager&)> question) {
    std::optional<T> answer;
    Run([&](BacklogManager& manager) { answer.emplace(question(manager)); });
    return std::move(*answer);
  }

  QueueOwner& Start() {
    Run([this](BacklogManager& manager) {
      manager.Start();
      manager.WhenInitialized([this](Status status) { initialized = std::move(status); });
    });
    return *this;
  }
  void Stop() {
    Run([this](BacklogManager& manager) { manager.Stop([this] { ++stopped; }); });
  }
  // Stops, with all the time it takes, and destroys the manager.
  void Destroy() {
    if (manager_ == nullptr) return;
    Stop();
    for (int i = 0; i < 100 && stopped == 0; ++i)
      world_.executor.AdvanceBy(std::chrono::seconds(1));
    MR_CHECK(stopped > 0);
    strand_.Post([this] { manager_ = nullptr; });
    world_.executor.RunUntilIdle();
  }

  NewTask MakeTask(std::string payload) const {
    NewTask task;
    task.create_time = world_.executor.clock().WallNow();
    task.payload = std::move(payload);
    return task;
  }
  // Hands over appends without letting anything run in between; their outcomes end up in `spooled`,
  // by payload.
  void SpoolLater(BacklogManager& manager, NewTask task) {
    std::string name = task.payload;
    manager.SpoolTask(std::move(task), [this, name](WriteOutcome outcome) {
      if (outcome.status.ok()) {
        MR_CHECK(outcome.created.size() == 1);
        keys[name] = outcome.created[0];
      }
      MR_CHECK(spooled.emplace(name, outcome.status).second);
    });
  }
  void Spool(const std::vector<std::string>& payloads) {
    Run([&](BacklogManager& manager) {
      for (const std::string& payload : payloads) SpoolLater(manager, MakeTask(payload));
    });
  }
  Status SpoolOne(const std::string& payload) {
    Spool({payload});
    const auto it = spooled.find(payload);
    return it == spooled.end() ? Status(StatusCode::kDeadlineExceeded, "not told yet") : it->second;
  }
  void Expiring(const std::string& payload, Duration after) {
    Run([&](BacklogManager& manager) {
      NewTask task = MakeTask(payload);
      task.expiry_time = world_.executor.clock().WallNow() + after;
      SpoolLater(manager, std::move(task));
    });
  }
  std::vector<LoadedTask> Take(std::size_t max) {
    return Ask<std::vector<LoadedTask>>(
        [max](BacklogManager& manager) { return manager.TakeLoaded(max); });
  }
  void Complete(const store::TaskKey& key) {
    Run([&](BacklogManager& manager) { manager.CompleteTask(key); });
  }
  // Ends tasks by a write, as the standalone queue does.
  void End(const std::vector<store::TaskKey>& ends, Total as = Total::kDone) {
    Run([&](BacklogManager& manager) {
      WriteOp op;
      op.ends = ends;
      op.ends_as = as;
      op.done = [this](const WriteOutcome& outcome) { ended.push_back(outcome.status); };
      op.decided = [this](bool applied) { decided.push_back(applied); };
      manager.Submit(std::move(op));
    });
  }
  InternalSubqueueStatus Internal(std::size_t subqueue = 0) {
    return Ask<InternalSubqueueStatus>(
        [subqueue](BacklogManager& manager) { return manager.InternalStatus().at(subqueue); });
  }
  std::int64_t Count() {
    return Ask<std::int64_t>(
        [](BacklogManager& manager) { return manager.TotalApproximateBacklogCount(); });
  }
  bool Idle() {
    return Ask<bool>([](BacklogManager& manager) { return manager.Idle(); });
  }

  BacklogManager& manager() { return *manager_; }
  exec::Strand& strand() { return strand_; }
  sim::SimStore& store() { return store_; }

  // BacklogListener.
  void OnLeaseHeld() override {
    ++lease_held;
    if (read_at_once) manager_->BeginReading();
  }
  bool OnTaskLoaded(const store::TaskRow& row) override {
    loaded.push_back(row.payload);
    return keep && keep(row);
  }
  void OnTasksAvailable() override {
    ++available;
    if (on_available) on_available();
  }
  void OnBuildWrite(store::QueueWrite& write) override {
    ++built;
    MR_CHECK(built - ends_seen == 1);
    if (on_build) on_build(write);
  }
  void OnWriteEnd(bool applied) override {
    ++ends_seen;
    write_ends.push_back(applied);
  }
  void OnUnloadRequested(UnloadCause cause, const Status& status) override {
    unloads.emplace_back(cause, status.code());
    if (stop_on_unload) manager_->Stop([this] { ++stopped; });
  }

  std::optional<Status> initialized;
  int lease_held = 0;
  int stopped = 0;
  int available = 0;
  int built = 0;
  int ends_seen = 0;
  bool read_at_once = true;
  bool stop_on_unload = false;
  std::vector<std::string> loaded;
  std::vector<bool> write_ends;
  std::vector<std::pair<UnloadCause, StatusCode>> unloads;
  std::map<std::string, Status> spooled;
  std::map<std::string, store::TaskKey> keys;
  std::vector<Status> ended;
  std::vector<bool> decided;
  std::function<bool(const store::TaskRow&)> keep;
  std::function<void()> on_available;
  std::function<void(store::QueueWrite&)> on_build;

 private:
  World& world_;
  exec::Strand strand_;
  sim::SimStore store_;
  std::unique_ptr<OwnerWatch> watch_;
  std::unique_ptr<BacklogManager> manager_;
};

inline BacklogConfig SmallConfig(bool delete_on_finish) {
  BacklogConfig config;
  config.range_size = 100;
  config.write_batch_max = 10;
  config.page_size = 10;
  config.gc_batch = 10;
  config.delete_on_finish = delete_on_finish;
  return config;
}

}  // namespace millrace::backlog::testing
