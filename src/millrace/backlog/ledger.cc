#include "millrace/backlog/ledger.h"

#include <algorithm>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::backlog {
namespace {

void AddTo(Totals& to, const Totals& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

Ledger::Ledger(std::uint64_t nonce, std::int64_t range_size)
    : nonce_(nonce), range_size_(range_size) {}

std::int64_t Ledger::Counts::AfterWrite() const {
  return std::max<std::int64_t>(0, certain + sent_unsaved + sent_created - sent_deleted);
}

void Ledger::Load(const store::QueueMetadata& metadata, const OwnerState& state) {
  MR_CHECK(!sent_);
  EnsureSubqueues(metadata.subqueues.size());
  for (std::size_t i = 0; i < metadata.subqueues.size(); ++i) {
    subqueues_[i].certain = std::max<std::int64_t>(0, metadata.subqueues[i].approximate_count);
  }
  totals_ = state.totals;
  write_seq_ = state.write_seq;
}

void Ledger::EnsureSubqueues(std::size_t count) {
  if (count > subqueues_.size()) subqueues_.resize(count);
}

void Ledger::Ack(store::Subqueue subqueue, const core::Acked& acked) {
  subqueues_[static_cast<std::size_t>(subqueue)].unsaved -= acked.count;
  At(unsaved_totals_, Total::kDone) += acked.count - acked.dropped;
  At(unsaved_totals_, Total::kDroppedExpired) += acked.dropped;
}

bool Ledger::SetEmpty(store::Subqueue subqueue) {
  MR_CHECK(!sent_);
  Counts& counts = subqueues_[static_cast<std::size_t>(subqueue)];
  const std::int64_t count = counts.certain + counts.unsaved;
  if (count == 0 || MR_MUTANT(count_never_settled)) return false;
  counts.unsaved = -counts.certain;
  // Their rows were deleted as finished by an owner that could not write it down any more.
  At(unsaved_totals_, Total::kDone) += count;
  return true;
}

void Ledger::BeginWrite() {
  MR_CHECK(!sent_);
  sent_ = true;
  for (Counts& counts : subqueues_) {
    counts.sent_unsaved = counts.unsaved;
    counts.unsaved = 0;
  }
  sent_unsaved_totals_ = unsaved_totals_;
  unsaved_totals_ = {};
}

void Ledger::AddCreated(store::Subqueue subqueue, std::int64_t rows) {
  subqueues_[static_cast<std::size_t>(subqueue)].sent_created += rows;
}

void Ledger::AddDeleted(store::Subqueue subqueue, std::int64_t rows) {
  subqueues_[static_cast<std::size_t>(subqueue)].sent_deleted += rows;
}

std::uint64_t Ledger::FinishWrite(store::QueueMetadata& metadata) {
  MR_CHECK(sent_ && metadata.subqueues.size() == subqueues_.size());
  for (std::size_t i = 0; i < subqueues_.size(); ++i) {
    metadata.subqueues[i].approximate_count = subqueues_[i].AfterWrite();
  }
  OwnerState state{nonce_, ++write_seq_, range_size_, totals_};
  AddTo(state.totals, sent_unsaved_totals_);
  AddTo(state.totals, sent_totals_);
  metadata.owner_state = EncodeOwnerState(state);
  return write_seq_;
}

void Ledger::Applied() {
  MR_CHECK(sent_);
  for (Counts& counts : subqueues_) counts.certain = counts.AfterWrite();
  AddTo(totals_, sent_unsaved_totals_);
  AddTo(totals_, sent_totals_);
  EndWrite();
}

void Ledger::Refused() {
  MR_CHECK(sent_);
  for (Counts& counts : subqueues_) {
    if (!MR_MUTANT(count_not_restored)) counts.unsaved += counts.sent_unsaved;
  }
  AddTo(unsaved_totals_, sent_unsaved_totals_);
  EndWrite();
}

bool Ledger::WroteSent(const OwnerState& state) const {
  return state.nonce == nonce_ && state.write_seq >= write_seq_;
}

void Ledger::Decided(bool applied, const store::QueueMetadata& metadata, const OwnerState& state) {
  if (applied) {
    Applied();
  } else {
    Refused();
  }
  // Equal to what is known anyway, unless the store changed hands in between.
  EnsureSubqueues(metadata.subqueues.size());
  for (std::size_t i = 0; i < metadata.subqueues.size(); ++i) {
    subqueues_[i].certain = std::max<std::int64_t>(0, metadata.subqueues[i].approximate_count);
  }
  totals_ = state.totals;
}

void Ledger::EndWrite() {
  sent_ = false;
  for (Counts& counts : subqueues_) {
    counts.sent_unsaved = 0;
    counts.sent_created = 0;
    counts.sent_deleted = 0;
  }
  sent_unsaved_totals_ = {};
  sent_totals_ = {};
}

std::int64_t Ledger::Count(store::Subqueue subqueue) const {
  const Counts& counts = subqueues_[static_cast<std::size_t>(subqueue)];
  return std::max<std::int64_t>(
      0, counts.certain + counts.unsaved + counts.sent_unsaved + counts.sent_created);
}

std::int64_t Ledger::TotalCount() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < subqueues_.size(); ++i)
    total += Count(static_cast<store::Subqueue>(i));
  return total;
}

}  // namespace millrace::backlog
