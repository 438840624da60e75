#pragma once

#include <cstddef>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/types.h"
#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/random.h"
#include "millrace/core/retry_policy.h"
#include "millrace/exec/strand.h"

namespace millrace::backlog {

// Tasks that end for certain, expired ones for instance, and whose rows must go whatever it takes:
// keeps submitting them until a write deleted them.
//
// Thread: its strand.
// Bounds: holds keys only, at most as many as are outstanding.
// Fails: never; it backs off and goes on until stopped. What is left then is still stored, for the
// next owner.
class OwedEnds {
 public:
  // `gone` runs with the keys that were deleted, or had ended otherwise.
  OwedEnds(const BacklogConfig& config, exec::Strand& strand, Random& random, Total ends_as,
           UniqueFunction<void(WriteOp)> submit,
           UniqueFunction<void(const std::vector<store::TaskKey>&)> gone);

  void Add(const store::TaskKey& key);
  // Submits what was added since.
  void Flush();
  void Stop();
  [[nodiscard]] bool idle() const {
    strand_.AssertCurrent();
    return keys_.empty() && in_flight_ == 0;
  }

 private:
  void SubmitKeys(std::vector<store::TaskKey> keys) MR_REQUIRES(strand_);
  void OnDone(std::vector<store::TaskKey> keys, const Status& status) MR_REQUIRES(strand_);

  const BacklogConfig& config_;
  exec::Strand& strand_;
  const Total ends_as_;
  UniqueFunction<void(WriteOp)> submit_;
  UniqueFunction<void(const std::vector<store::TaskKey>&)> gone_;
  std::vector<store::TaskKey> keys_ MR_GUARDED_BY(strand_);
  std::size_t in_flight_ MR_GUARDED_BY(strand_) = 0;
  bool stopped_ MR_GUARDED_BY(strand_) = false;
  core::RetryPolicy retry_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
