#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "millrace/store/task_store.h"

namespace millrace::store {

// One fresh, empty store under test.
class ContractStore {
 public:
  virtual ~ContractStore() = default;
  virtual TaskStore& store() = 0;
  // Ends the store as a clean stop would and opens it again over the same data. A store without a
  // life beyond its object does nothing.
  virtual void Reopen() {}
};

struct ContractParam {
  std::string name;
  std::function<std::unique_ptr<ContractStore>()> make;
};

// What TaskStore means, as tests. A store's test file links this and says
//   INSTANTIATE_TEST_SUITE_P(Rocks, StoreContract, ::testing::Values(ContractParam{...}),
//   ContractParamName);
class StoreContract : public ::testing::TestWithParam<ContractParam> {
 protected:
  void SetUp() override { under_test_ = GetParam().make(); }
  TaskStore& store() { return under_test_->store(); }
  void Reopen() { under_test_->Reopen(); }

 private:
  std::unique_ptr<ContractStore> under_test_;
};

inline std::string ContractParamName(const ::testing::TestParamInfo<ContractParam>& info) {
  return info.param.name;
}

}  // namespace millrace::store
