// Acknowledged means synced: random work on a file system that loses what was not synced when the
// power fails, and then a comparison with every state that may be left.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/base/random.h"
#include "millrace/store/rocksdb/fault_file_system.h"
#include "millrace/store/rocksdb/store_testing.h"
#include "millrace/store/rocksdb/temp_directory.h"

namespace millrace::store {
namespace {

constexpr int kQueues = 3;

struct QueueState {
  std::int64_t range_id = 0;
  std::set<std::int64_t> tasks;
  friend bool operator==(const QueueState&, const QueueState&) = default;
};
using State = std::map<std::string, QueueState>;

class PowerLossTest : public ::testing::TestWithParam<int> {
 protected:
  PowerLossTest() : random_(static_cast<std::uint64_t>(GetParam()) + 1) {
    config_.path = directory_.path() / "data";
    config_.heal_retry = Duration::zero();
    config_.env = file_system_.env();
    // Small enough that flushes, compactions and log switches happen within a run.
    config_.write_buffer_bytes = 64u << 10;
    possible_ = {State{}};
  }

  void Open() {
    Result<std::unique_ptr<RocksTaskStore>> opened = RocksTaskStore::Open(config_, log_);
    ASSERT_TRUE(opened.ok()) << opened.status() << " seed " << GetParam();
    store_ = std::move(*opened);
  }

  State Read() {
    State state;
    for (int i = 0; i < kQueues; ++i) {
      const std::string queue = "q" + std::to_string(i);
      Result<QueueMetadata> metadata = store_->ReadMetadata({"ns", queue, 0});
      if (!metadata.ok()) {
        EXPECT_EQ(metadata.code(), StatusCode::kNotFound);
        continue;
      }
      const std::vector<std::int64_t> ids = TaskIds(*store_, queue);
      state[queue] = {metadata->range_id.value, {ids.begin(), ids.end()}};
    }
    return state;
  }

  // One write that changes `state` as well.
  QueueWrite RandomWrite(State& state) {
    const std::string queue = "q" + std::to_string(random_.Below(kQueues));
    QueueState& now = state[queue];
    QueueWrite write;
    write.queue = {"ns", queue, 0};
    write.expected_range_id = RangeId{now.range_id};
    if (now.range_id == 0 || random_.Chance(1, 10)) write.metadata = TestMetadata(++now.range_id);
    for (std::uint64_t i = random_.Below(4); i > 0; --i) {
      const std::int64_t id = ++last_id_;
      write.creates.push_back({TaskKey{0, {0, TaskId{id}}}, WallTime{1}, WallTime{},
                               std::string(random_.Below(2'000), 'p')});
      now.tasks.insert(id);
    }
    for (std::uint64_t i = random_.Below(4); i > 0 && !now.tasks.empty(); --i) {
      write.deletes.push_back(TaskKey{0, {0, TaskId{*now.tasks.begin()}}});
      now.tasks.erase(now.tasks.begin());
    }
    write.durability = random_.Chance(1, 3) ? Durability::kRelaxed : Durability::kSynced;
    return write;
  }

  // Commits one group; possible_ becomes the states that a power loss may leave, oldest first.
  void CommitGroup() {
    State next = possible_.back();
    std::vector<QueueWrite> writes;
    bool synced = false;
    for (std::uint64_t i = 1 + random_.Below(4); i > 0; --i) {
      writes.push_back(RandomWrite(next));
      synced = synced || writes.back().durability == Durability::kSynced;
    }
    const std::vector<Status> results = store_->Commit(writes);
    const bool ok = results[0].ok();
    for (const Status& result : results) {
      ASSERT_EQ(result.ok(), ok);
      if (!ok) {
        ASSERT_EQ(result.code(), results[0].code()) << result;
      }
    }
    // Surely not applied: a background write of RocksDB met the fault first.
    if (results[0].code() == StatusCode::kUnavailable) return;
    if (!ok) {
      ASSERT_EQ(results[0].code(), StatusCode::kUnknownOutcome);
    }
    if (ok && synced) possible_.clear();
    possible_.push_back(std::move(next));
  }

  void PowerLoss() {
    file_system_.Freeze();
    store_.reset();
    file_system_.Heal();
    file_system_.PowerLoss(random_);
    Open();
    if (HasFatalFailure()) return;
    const State found = Read();
    ASSERT_TRUE(std::find(possible_.begin(), possible_.end(), found) != possible_.end())
        << "seed " << GetParam() << ": the state found is none of the " << possible_.size()
        << " that may be left";
    // What is there now is in tables, and stays.
    possible_ = {found};
  }

  void Run() {
    Open();
    for (int round = 0; round < 6; ++round) {
      for (std::uint64_t i = random_.Below(80); i > 0; --i) {
        CommitGroup();
        if (HasFatalFailure()) return;
      }
      if (random_.Chance(1, 2)) {
        if (random_.Chance(1, 2)) {
          file_system_.FailSyncs(rocksdb::IOStatus::IOError("sync"));
        } else {
          file_system_.FailAppends(rocksdb::IOStatus::NoSpace("append"));
        }
        // Relaxed groups may still succeed; the first that fails ends it.
        while (store_->Health().ok()) {
          CommitGroup();
          if (HasFatalFailure()) return;
        }
      }
      PowerLoss();
      if (HasFatalFailure()) return;
    }
  }

  SeededRandom random_;
  RecordingLog log_;
  TempDirectory directory_;
  FaultFileSystem file_system_;
  RocksTaskStoreConfig config_;
  std::unique_ptr<RocksTaskStore> store_;
  std::vector<State> possible_;
  std::int64_t last_id_ = 0;
};

TEST_P(PowerLossTest, AcknowledgedIsStillThere) { Run(); }

// MILLRACE_SEEDS asks for more of them.
int Seeds() {
  const char* asked = std::getenv("MILLRACE_SEEDS");
  return asked != nullptr ? std::max(std::atoi(asked), 1) : 8;
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerLossTest, ::testing::Range(0, Seeds()));

}  // namespace
}  // namespace millrace::store
