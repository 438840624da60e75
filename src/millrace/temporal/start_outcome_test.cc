#include "millrace/temporal/start_outcome.h"

#include <gtest/gtest.h>

#include <vector>

#include "millrace/temporal/error_details.h"

namespace millrace::temporal {
namespace {

namespace enums = ::temporal::api::enums::v1;
using rpc::Code;

void Expect(const rpc::RpcStatus& status, TaskFate task, PollerFate poller,
            DropReason reason = DropReason::kNone) {
  const StartOutcome outcome = ClassifyStart(status);
  EXPECT_EQ(outcome.task, task) << status.message;
  EXPECT_EQ(outcome.poller, poller) << status.message;
  EXPECT_EQ(outcome.drop_reason, reason) << status.message;
}

TEST(StartOutcome, AStartedTaskIsThePollers) {
  Expect({}, TaskFate::kStarted, PollerFate::kAnswer);
}

TEST(StartOutcome, WhatIsOverIsDropped) {
  Expect(NotFoundError("n"), TaskFate::kDrop, PollerFate::kPollOn, DropReason::kNotFound);
  Expect({Code::kNotFound, "n", {}}, TaskFate::kDrop, PollerFate::kPollOn, DropReason::kNotFound);
  for (const rpc::RpcStatus& status :
       {TaskAlreadyStartedError(), ObsoleteDispatchBuildIdError("o"),
        ObsoleteMatchingTaskError("o"), ActivityStartDuringTransitionError()}) {
    Expect(status, TaskFate::kDrop, PollerFate::kPollOn, DropReason::kInvalid);
    EXPECT_FALSE(ClassifyStart(status).wait_before_next);
  }
  Expect({Code::kInternal, "i", {}}, TaskFate::kDrop, PollerFate::kPollOn,
         DropReason::kInternalError);
  Expect({Code::kDataLoss, "d", {}}, TaskFate::kDrop, PollerFate::kPollOn, DropReason::kDataLoss);
}

TEST(StartOutcome, AnExhaustedHistoryTurnsThePollerAway) {
  for (int cause = 0; cause <= 12; ++cause) {
    const rpc::RpcStatus status = ResourceExhaustedError(
        static_cast<ResourceExhaustedCause>(cause), enums::RESOURCE_EXHAUSTED_SCOPE_SYSTEM, "r");
    const bool one_workflow = cause == enums::RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW;
    Expect(status, TaskFate::kRewrite, one_workflow ? PollerFate::kPollOn : PollerFate::kError);
    EXPECT_EQ(ClassifyStart(status).wait_before_next, !one_workflow);
  }
  Expect({Code::kResourceExhausted, "r", {}}, TaskFate::kRewrite, PollerFate::kError);
  Expect(NamespaceHandoverError(), TaskFate::kRewrite, PollerFate::kError);
}

// Every code that says nothing more, and every error that is nobody's business here.
TEST(StartOutcome, TheRestIsWrittenAgainAndThePollerWaitsOn) {
  std::vector<rpc::RpcStatus> rest = {
      ShardOwnershipLostError("b:1", "a:1"), StickyWorkerUnavailableError(),
      StalePartitionCountsError("s"), QueryFailedError("q", {}), RemoteSyncMatchFailedError()};
  for (int code = 1; code <= 16; ++code) {
    const auto one = static_cast<Code>(code);
    if (one == Code::kNotFound || one == Code::kInternal || one == Code::kDataLoss ||
        one == Code::kResourceExhausted) {
      continue;
    }
    rest.push_back({one, "code " + std::to_string(code), {}});
  }
  for (const rpc::RpcStatus& status : rest) {
    Expect(status, TaskFate::kRewrite, PollerFate::kPollOn);
    EXPECT_TRUE(ClassifyStart(status).wait_before_next) << status.message;
  }
}

TEST(StartOutcome, ReasonsHaveNames) {
  for (const DropReason reason : {DropReason::kNotFound, DropReason::kInvalid,
                                  DropReason::kInternalError, DropReason::kDataLoss}) {
    EXPECT_FALSE(DropReasonName(reason).empty());
  }
  EXPECT_TRUE(DropReasonName(DropReason::kNone).empty());
}

}  // namespace
}  // namespace millrace::temporal
