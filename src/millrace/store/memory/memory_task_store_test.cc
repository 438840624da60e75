#include "millrace/store/memory/memory_task_store.h"

#include <memory>

#include <gtest/gtest.h>

#include "millrace/store/contract_suite.h"
#include "millrace/store/split_task_store.h"

namespace millrace::store {
namespace {

class MemoryUnderTest final : public ContractStore {
 public:
  TaskStore& store() override { return store_; }

 private:
  MemoryTaskStore store_;
};

class SplitUnderTest final : public ContractStore {
 public:
  TaskStore& store() override { return store_; }

 private:
  SplitTaskStore store_{std::make_unique<MemoryTaskStore>(), std::make_unique<MemoryTaskStore>()};
};

INSTANTIATE_TEST_SUITE_P(Split, StoreContract,
                         ::testing::Values(ContractParam{
                             "Split", [] { return std::make_unique<SplitUnderTest>(); }}),
                         ContractParamName);

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
                         ::testing::Values(ContractParam{
                             "Memory", [] { return std::make_unique<MemoryUnderTest>(); }}),
                         ContractParamName);

}  // namespace
}  // namespace millrace::store
