#include "millrace/backlog/backlog_manager.h"

#include <utility>

#include "millrace/backlog/backlog_impl.h"

namespace millrace::backlog {

BacklogManager::BacklogManager(store::PhysicalQueueKey key, const BacklogConfig& config,
                               exec::Strand& strand, store::AsyncTaskStore& store,
                               OwnerWatch& watch, Random& random, BacklogMetrics& metrics, Log& log,
                               BacklogListener& listener)
    : impl_(std::make_unique<Impl>(std::move(key), config, strand, store, watch, random, metrics,
                                   log, listener)) {}

BacklogManager::~BacklogManager() = default;

void BacklogManager::Start() { impl_->Start(); }
void BacklogManager::WhenInitialized(store::StatusCallback done) {
  impl_->WhenInitialized(std::move(done));
}
void BacklogManager::AdoptTasks(const std::vector<store::TaskKey>& tasks) {
  impl_->AdoptTasks(tasks);
}
void BacklogManager::BeginReading() { impl_->BeginReading(); }
void BacklogManager::Stop(Closure done) { impl_->Stop(std::move(done)); }

void BacklogManager::Submit(WriteOp op) { impl_->Submit(std::move(op), false); }

void BacklogManager::SpoolTask(NewTask task, UniqueFunction<void(WriteOutcome)> done) {
  WriteOp op;
  op.creates.push_back(std::move(task));
  op.done = std::move(done);
  impl_->Submit(std::move(op), false);
}

void BacklogManager::RequestWrite(bool synced) { impl_->RequestWrite(synced); }

std::vector<LoadedTask> BacklogManager::TakeLoaded(std::size_t max) {
  return impl_->TakeLoaded(max);
}
bool BacklogManager::HasLoaded() const { return impl_->HasLoaded(); }
void BacklogManager::PutBack(LoadedTask task) { impl_->PutBack(std::move(task)); }
void BacklogManager::CompleteTask(const store::TaskKey& key) { impl_->CompleteTask(key); }
void BacklogManager::RewriteTask(LoadedTask task) { impl_->RewriteTask(std::move(task)); }

bool BacklogManager::lease_held() const { return impl_->lease_held(); }
RangeId BacklogManager::range_id() const { return impl_->range_id(); }
const Totals& BacklogManager::totals() const { return impl_->totals(); }
std::int64_t BacklogManager::BacklogCountHint() const { return impl_->BacklogCountHint(); }
std::int64_t BacklogManager::TotalApproximateBacklogCount() const {
  return impl_->TotalApproximateBacklogCount();
}
Duration BacklogManager::BacklogHeadAge() const { return impl_->BacklogHeadAge(); }
BacklogStatus BacklogManager::DescribeBacklog() const { return impl_->DescribeBacklog(); }
std::vector<InternalSubqueueStatus> BacklogManager::InternalStatus() const {
  return impl_->InternalStatus();
}
bool BacklogManager::Idle() const { return impl_->Idle(); }

}  // namespace millrace::backlog
