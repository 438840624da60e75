#pragma once

#include <memory>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/types.h"
#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/core/retry_policy.h"
#include "millrace/exec/strand.h"

namespace millrace::backlog {

// Writes tasks that could not be started again, behind all others, so that they neither get lost
// nor block others.
//
//   waiting --Submit--> in flight --ok, or applied after all--> gone
//      ^------ wait ------'  `--surely not written, transient
//
// Thread: its strand.
// Bounds: as many as tasks were taken; holds a copy of each payload meanwhile.
// Fails: `give_up` runs when a task could not be written within rewrite_retry_total, or for a
// reason that retrying does not cure; the task stays outstanding, so that the next owner sees it.
class TaskRewriter {
 public:
  TaskRewriter(const BacklogConfig& config, exec::Strand& strand, BacklogMetrics& metrics,
               UniqueFunction<void(WriteOp)> submit, UniqueFunction<void(const Status&)> give_up);

  void Rewrite(LoadedTask task);
  void Stop();
  [[nodiscard]] bool idle() const {
    strand_.AssertCurrent();
    return jobs_.empty();
  }

 private:
  struct Job {
    Job(LoadedTask t, const BacklogConfig& config, exec::Strand& strand)
        : task(std::move(t)),
          retry(config.rewrite_retry_min, config.rewrite_retry_max, config.rewrite_retry_total),
          timer(strand) {}
    LoadedTask task;
    core::RetryPolicy retry;
    exec::StrandTimer timer;
  };

  void Start(const std::shared_ptr<Job>& job) MR_REQUIRES(strand_);
  void OnWritten(const std::shared_ptr<Job>& job, const Status& status) MR_REQUIRES(strand_);
  void OnFailed(const std::shared_ptr<Job>& job, const Status& status) MR_REQUIRES(strand_);
  void Remove(const std::shared_ptr<Job>& job) MR_REQUIRES(strand_);

  const BacklogConfig& config_;
  exec::Strand& strand_;
  BacklogMetrics& metrics_;
  UniqueFunction<void(WriteOp)> submit_;
  UniqueFunction<void(const Status&)> give_up_;
  bool stopped_ MR_GUARDED_BY(strand_) = false;
  std::vector<std::shared_ptr<Job>> jobs_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
