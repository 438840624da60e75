#include "millrace/store/memory/memory_task_store.h"

#include <memory>

#include <gtest/gtest.h>

#include "millrace/store/contract_suite.h"

namespace millrace::store {
namespace {

class MemoryUnderTest final : public ContractStore {
 public:
  TaskStore& store() override { return store_; }

 private:
  MemoryTaskStore store_;
};

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
                         ::testing::Values(ContractParam{
                             "Memory", [] { return std::make_unique<MemoryUnderTest>(); }}),
                         ContractParamName);

}  // namespace
}  // namespace millrace::store
