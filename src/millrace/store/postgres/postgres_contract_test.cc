#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "millrace/base/check.h"
#include "millrace/store/contract_suite.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/test_server.h"

namespace millrace::store {
namespace {

class PostgresUnderTest final : public ContractStore {
 public:
  explicit PostgresUnderTest(PostgresConfig config) : config_(std::move(config)) {
    config_.url = PgTestServer::Shared().NewDatabase();
    Open();
  }
  TaskStore& store() override { return *store_; }
  void Reopen() override {
    store_.reset();
    Open();
  }

 private:
  void Open() {
    Result<std::unique_ptr<PostgresTaskStore>> opened =
        PostgresTaskStore::Open(config_, StandaloneLayout(), NullMetrics(), log_);
    MR_CHECK(opened.ok());
    store_ = std::move(*opened);
  }

  NullLog log_;
  PostgresConfig config_;
  std::unique_ptr<PostgresTaskStore> store_;
};

ContractParam Param(std::string name, PostgresConfig config) {
  return {std::move(name), [config] { return std::make_unique<PostgresUnderTest>(config); }};
}

PostgresConfig OneConnection() {
  PostgresConfig config;
  config.connections_max = 1;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Postgres, StoreContract,
                         ::testing::Values(Param("Default", {}),
                                           Param("OneConnection", OneConnection())),
                         ContractParamName);

}  // namespace
}  // namespace millrace::store
