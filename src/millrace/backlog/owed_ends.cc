#include "millrace/backlog/owed_ends.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "millrace/base/mutation.h"

namespace millrace::backlog {

OwedEnds::OwedEnds(const BacklogConfig& config, exec::Strand& strand, Random& random, Total ends_as,
                   UniqueFunction<void(WriteOp)> submit,
                   UniqueFunction<void(const std::vector<store::TaskKey>&)> gone)
    : config_(config),
      strand_(strand),
      ends_as_(ends_as),
      submit_(std::move(submit)),
      gone_(std::move(gone)),
      retry_(config.store_retry_min, config.store_retry_max, Duration::zero(), &random),
      timer_(strand) {}

void OwedEnds::Add(const store::TaskKey& key) {
  strand_.AssertCurrent();
  if (!stopped_) keys_.push_back(key);
}

void OwedEnds::Flush() {
  strand_.AssertCurrent();
  if (stopped_ || keys_.empty() || timer_.armed()) return;
  std::vector<store::TaskKey> keys;
  keys.swap(keys_);
  for (std::size_t i = 0; i < keys.size(); i += config_.write_batch_max) {
    const std::size_t end = std::min(keys.size(), i + config_.write_batch_max);
    SubmitKeys({keys.begin() + static_cast<std::ptrdiff_t>(i),
                keys.begin() + static_cast<std::ptrdiff_t>(end)});
  }
}

void OwedEnds::Stop() {
  strand_.AssertCurrent();
  stopped_ = true;
  timer_.Cancel();
  std::vector<store::TaskKey>().swap(keys_);
}

void OwedEnds::SubmitKeys(std::vector<store::TaskKey> keys) {
  WriteOp op;
  op.accepts = false;
  op.ends = keys;
  op.ends_as = ends_as_;
  ++in_flight_;
  const auto shared = std::make_shared<std::vector<store::TaskKey>>(std::move(keys));
  op.done = [this, shared](const WriteOutcome& outcome) {
    strand_.AssertCurrent();
    if (outcome.status.code() != StatusCode::kUnknownOutcome)
      OnDone(std::move(*shared), outcome.status);
  };
  op.decided = [this, shared](bool applied) {
    strand_.AssertCurrent();
    OnDone(
        std::move(*shared),
        applied ? Status() : Status(StatusCode::kUnavailable, "the write did not reach the store"));
  };
  submit_(std::move(op));
}

void OwedEnds::OnDone(std::vector<store::TaskKey> keys, const Status& status) {
  --in_flight_;
  if (stopped_) return;
  if (status.ok() || (status.code() == StatusCode::kNotFound && keys.size() == 1)) {
    retry_.OnSuccess();
    return gone_(keys);
  }
  if (status.code() == StatusCode::kNotFound) {
    // One of them ended otherwise: find out which by asking for each.
    for (const store::TaskKey& key : keys) SubmitKeys({key});
    return;
  }
  if (!MR_MUTANT(owed_end_forgotten)) keys_.insert(keys_.end(), keys.begin(), keys.end());
  if (timer_.armed()) return;
  const Instant now = strand_.clock().Now();
  timer_.Arm(now + *retry_.OnFailure(now), [this] {
    strand_.AssertCurrent();
    Flush();
  });
}

}  // namespace millrace::backlog
