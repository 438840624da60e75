#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/testing/backlog_harness.h"

namespace millrace::backlog::testing {

// A layer above that puts tasks in, takes them out and finishes them, loads the queue again
// whenever it is lost, and keeps book of what it was told. Check compares the book with the store
// at the end.
class Driver {
 public:
  Driver(World& world, const BacklogConfig& config, sim::FaultPlan& plan)
      : world_(world), config_(config), plan_(plan) {}
  ~Driver() { owner_ = nullptr; }

  // The loaded queue; loads it when there is none or it was lost.
  QueueOwner& Owner() {
    for (int i = 0; i < 50; ++i) {
      if (owner_ != nullptr && owner_->unloads.empty() && owner_->initialized) return *owner_;
      Load();
    }
    ADD_FAILURE() << "the queue cannot be loaded";
    return *owner_;
  }

  // A new owner takes the queue while the old one still works.
  void Steal() {
    stolen_ = true;
    if (owner_ != nullptr) old_.push_back(std::move(owner_));
    ++generation_;
    taken_.clear();
  }
  void BuryOld() { old_.clear(); }

  void Reload() {
    owner_ = nullptr;
    ++generation_;
    taken_.clear();
  }

  void Spool(const std::vector<std::string>& names, Duration expires_after = Duration::zero()) {
    Owner().Run([&](BacklogManager& manager) {
      for (const std::string& name : names) {
        NewTask task;
        task.payload = name;
        task.create_time = world_.executor.clock().WallNow();
        if (expires_after > Duration::zero()) {
          task.expiry_time = world_.executor.clock().WallNow() + expires_after;
          expiring_[name] = true;
        }
        WriteOp op;
        op.creates.push_back(std::move(task));
        book_[name] = Fate::kUnknown;
        op.done = [this, name](const WriteOutcome& outcome) {
          if (outcome.status.ok()) book_[name] = Fate::kAccepted;
          if (!outcome.status.ok() && outcome.status.code() != StatusCode::kUnknownOutcome)
            book_[name] = Fate::kRefused;
        };
        op.decided = [this, name](bool applied) {
          book_[name] = applied ? Fate::kAccepted : Fate::kRefused;
        };
        manager.Submit(std::move(op));
      }
    });
  }

  void Take(std::size_t max) {
    for (LoadedTask& task : Owner().Take(max)) {
      const std::string& name = task.payload;
      EXPECT_TRUE(book_.count(name)) << name << " was never put in";
      EXPECT_NE(book_[name], Fate::kRefused)
          << name << " was refused for certain, and came nevertheless";
      EXPECT_FALSE(finished_[name]) << name << " came back after it was finished for certain";
      EXPECT_FALSE(taken_.count(name)) << name << " was handed out twice by one owner";
      ++delivered_[name];
      taken_.emplace(name, std::move(task));
    }
  }

  void FinishSome(std::size_t max) {
    std::vector<std::string> names;
    for (const auto& [name, task] : taken_) {
      if (names.size() < max && !ending_.count({generation_, name})) names.push_back(name);
    }
    for (const std::string& name : names) Finish(name);
  }
  void RewriteOne() {
    Owner();
    for (const auto& [name, task] : taken_) {
      if (ending_.count({generation_, name})) continue;
      LoadedTask copy = task;
      taken_.erase(name);
      owner_->Run([&](BacklogManager& manager) { manager.RewriteTask(std::move(copy)); });
      return;
    }
  }
  void PutBackOne() {
    Owner();
    for (const auto& [name, task] : taken_) {
      if (ending_.count({generation_, name})) continue;
      LoadedTask copy = task;
      taken_.erase(name);
      owner_->Run([&](BacklogManager& manager) { manager.PutBack(std::move(copy)); });
      return;
    }
  }

  void Advance(Duration d) {
    world_.executor.AdvanceBy(d);
    CheckLevels();
  }

  // Until nothing is left; there must be no more faults by then, or few.
  void Drain() {
    for (int quiet = 0, round = 0; quiet < 8; ++round) {
      ASSERT_LT(round, 3000) << "the queue does not run empty";
      Take(100);
      FinishSome(100);
      Advance(std::chrono::milliseconds(500));
      quiet = taken_.empty() && Owner().Idle() ? quiet + 1 : 0;
    }
  }

  // After Drain: nothing durable was lost, nothing refused came, rows, counts and totals agree.
  void Check() {
    EXPECT_EQ(Owner().Count(), 0);
    EXPECT_EQ(Owner().Ask<std::int64_t>([](BacklogManager& m) { return m.BacklogCountHint(); }), 0);
    const InternalSubqueueStatus status = Owner().Internal();
    EXPECT_EQ(status.ack_level, status.read_level);
    EXPECT_EQ(status.read_level.id, status.max_read_level);
    Reload();
    old_.clear();
    // A final metadata write or deletion that failed is put right by the next owner.
    for (int i = 0; i < 3 && !StoreIsEmpty(); ++i) {
      EXPECT_FALSE(config_.delete_on_finish);
      Drain();
      Reload();
    }
    for (const auto& [name, fate] : book_) {
      if (fate == Fate::kAccepted && !expiring_.count(name)) {
        EXPECT_GE(delivered_[name], 1) << name << " was lost";
      }
      if (fate == Fate::kRefused) {
        EXPECT_EQ(delivered_[name], 0) << name;
      }
    }
    EXPECT_TRUE(world_.Rows().empty()) << world_.Rows().size() << " rows are left";
    EXPECT_EQ(world_.Metadata().subqueues.at(0).approximate_count, 0);
    const Totals totals = world_.StoredTotals();
    EXPECT_EQ(At(totals, Total::kAccepted),
              At(totals, Total::kDone) + At(totals, Total::kDroppedExpired));
    std::int64_t surely = 0;
    std::int64_t maybe = 0;
    for (const auto& [name, fate] : book_) {
      surely += fate == Fate::kAccepted ? 1 : 0;
      maybe += fate == Fate::kUnknown ? 1 : 0;
    }
    EXPECT_GE(At(totals, Total::kAccepted), surely);
    EXPECT_LE(At(totals, Total::kAccepted), surely + maybe);
    // An owner that does not know yet that it lost the queue may find it empty; it cannot write
    // that.
    if (config_.delete_on_finish && !stolen_) {
      EXPECT_EQ(world_.registry.Value("count_corrections_total"), 0u);
    }
  }

  [[nodiscard]] std::size_t taken() const { return taken_.size(); }

 private:
  enum class Fate { kUnknown, kAccepted, kRefused };

  void Load() {
    owner_ = nullptr;
    ++generation_;
    taken_.clear();
    last_ = {};
    owner_ = std::make_unique<QueueOwner>(world_, config_, &plan_, false);
    owner_->Start();
    for (int i = 0; i < 60 && !owner_->initialized; ++i)
      world_.executor.AdvanceBy(std::chrono::seconds(1));
  }

  void Finish(const std::string& name) {
    Owner();  // May be a new one, which has handed nothing out yet.
    if (!taken_.count(name)) return;
    const LoadedTask task = taken_.at(name);
    if (!config_.delete_on_finish) {
      const store::TaskKey key = task.key;
      taken_.erase(name);
      Owner().Complete(key);
      return;
    }
    const auto id = std::pair(generation_, name);
    ending_.insert(id);
    Owner().Run([&](BacklogManager& manager) {
      WriteOp op;
      op.ends.push_back(task.key);
      op.done = [this, id](const WriteOutcome& outcome) {
        if (outcome.status.code() == StatusCode::kUnknownOutcome) return;
        EXPECT_NE(outcome.status.code(), StatusCode::kNotFound) << id.second;
        OnEnded(id, outcome.status.ok());
      };
      op.decided = [this, id](bool applied) { OnEnded(id, applied); };
      manager.Submit(std::move(op));
    });
  }

  void OnEnded(const std::pair<int, std::string>& id, bool applied) {
    ending_.erase(id);
    if (!applied) return;
    EXPECT_FALSE(finished_[id.second]) << id.second << " was finished twice";
    finished_[id.second] = true;
    if (id.first == generation_) taken_.erase(id.second);
  }

  bool StoreIsEmpty() {
    return world_.Rows().empty() && world_.Metadata().subqueues.at(0).approximate_count == 0;
  }

  void CheckLevels() {
    if (owner_ == nullptr || !owner_->initialized || !owner_->initialized->ok() ||
        !owner_->unloads.empty())
      return;
    const InternalSubqueueStatus now = owner_->Internal();
    EXPECT_LE(now.ack_level, now.read_level);
    EXPECT_LE(now.read_level.id, now.max_read_level);
    EXPECT_GE(now.ack_level, last_.ack_level);
    EXPECT_GE(now.read_level, last_.read_level);
    EXPECT_GE(now.max_read_level, last_.max_read_level);
    EXPECT_GE(now.approximate_count, 0);
    last_ = now;
  }

  World& world_;
  const BacklogConfig config_;
  sim::FaultPlan& plan_;
  std::unique_ptr<QueueOwner> owner_;
  std::vector<std::unique_ptr<QueueOwner>> old_;
  int generation_ = 0;
  bool stolen_ = false;
  InternalSubqueueStatus last_;
  std::map<std::string, Fate> book_;
  std::map<std::string, bool> expiring_;
  std::map<std::string, bool> finished_;
  std::map<std::string, int> delivered_;
  std::map<std::string, LoadedTask> taken_;
  std::set<std::pair<int, std::string>> ending_;
};

}  // namespace millrace::backlog::testing
