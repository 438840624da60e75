#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "millrace/store/contract_suite.h"
#include "millrace/store/rocksdb/rocks_task_store.h"
#include "millrace/store/rocksdb/temp_directory.h"

namespace millrace::store {
namespace {

class RocksUnderTest final : public ContractStore {
 public:
  explicit RocksUnderTest(RocksTaskStoreConfig config) : config_(std::move(config)) {
    config_.path = directory_.path() / "data";
    config_.heal_retry = Duration::zero();
    Open();
  }
  TaskStore& store() override { return *store_; }
  void Reopen() override {
    store_.reset();
    Open();
  }

 private:
  void Open() {
    Result<std::unique_ptr<RocksTaskStore>> opened = RocksTaskStore::Open(config_, log_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = std::move(*opened);
  }

  NullLog log_;
  TempDirectory directory_;
  RocksTaskStoreConfig config_;
  std::unique_ptr<RocksTaskStore> store_;
};

ContractParam Param(std::string name, RocksTaskStoreConfig config) {
  return {std::move(name), [config] { return std::make_unique<RocksUnderTest>(config); }};
}

RocksTaskStoreConfig Tiny() {
  RocksTaskStoreConfig config;
  config.cached_queues_max = 1;
  config.write_buffer_bytes = 64u << 10;
  config.block_cache_bytes = 64u << 10;
  config.open_files_max = 20;
  return config;
}

RocksTaskStoreConfig Relaxed() {
  RocksTaskStoreConfig config;
  config.sync = false;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Rocks, StoreContract,
                         ::testing::Values(Param("Default", {}), Param("TinyMemory", Tiny()),
                                           Param("Relaxed", Relaxed())),
                         ContractParamName);

}  // namespace
}  // namespace millrace::store
