#include "millrace/core/ack_manager.h"

#include <algorithm>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::core {
namespace {

// Emptied vectors up to this capacity are kept, so that a queue with a task now and then does not
// allocate each time.
constexpr std::size_t kKeptCapacity = 8;
// Fewer spent entries than this are not worth a compaction.
constexpr std::size_t kSlack = 16;

}  // namespace

void AckManager::Begin(TaskLevel level) {
  MR_CHECK(read_level_ == kUnknownLevel && entries() == 0);
  ack_level_ = level;
  read_level_ = level;
}

void AckManager::MoveAck(TaskLevel level) {
  MR_CHECK(level >= ack_level_ && level <= read_level_);
  ack_level_ = level;
}

AckManager::Entry AckManager::FinishedEntry(TaskLevel level, Counting counting) {
  Entry entry{};
  entry.level = level;
  entry.aux = counting == Counting::kDropped ? 1 : 0;
  entry.counted = counting == Counting::kNone ? 0 : 1;
  entry.state = static_cast<std::uint64_t>(State::kFinished);
  return entry;
}

void AckManager::Push(Entry entry) {
  MR_CHECK(entry.level > read_level_);
  read_level_ = entry.level;
  entries_.push_back(entry);
}

void AckManager::Add(TaskLevel level, WallTime create_time) {
  Entry entry{};
  entry.level = level;
  entry.aux = create_time.ns;
  entry.state = static_cast<std::uint64_t>(State::kOutstanding);
  Push(entry);
  ++outstanding_;
}

Acked AckManager::AddFinished(TaskLevel level, Counting counting) {
  Push(FinishedEntry(level, counting));
  Compact();
  return PopFinished();
}

Acked AckManager::AdvanceRead(TaskLevel level) {
  MR_CHECK(level >= read_level_);
  read_level_ = level;
  return PopFinished();
}

std::size_t AckManager::FindUnfinished(TaskLevel level) const {
  const auto it =
      std::lower_bound(entries_.begin() + static_cast<std::ptrdiff_t>(head_), entries_.end(), level,
                       [](const Entry& entry, TaskLevel value) { return entry.level < value; });
  if (it == entries_.end() || it->level != level || it->finished()) return entries_.size();
  return static_cast<std::size_t>(it - entries_.begin());
}

bool AckManager::BeginEnd(TaskLevel level) {
  const std::size_t i = FindUnfinished(level);
  if (i == entries_.size() || static_cast<State>(entries_[i].state) == State::kEnding) return false;
  entries_[i].state = static_cast<std::uint64_t>(State::kEnding);
  return true;
}

void AckManager::CancelEnd(TaskLevel level) {
  const std::size_t i = FindUnfinished(level);
  if (i != entries_.size()) entries_[i].state = static_cast<std::uint64_t>(State::kOutstanding);
}

bool AckManager::Finish(TaskLevel level, Counting counting, Acked* acked) {
  const std::size_t i = FindUnfinished(level);
  if (i == entries_.size()) return false;
  entries_[i] = FinishedEntry(level, counting);
  --outstanding_;
  *acked = PopFinished();
  Compact();
  return true;
}

bool AckManager::IsOutstanding(TaskLevel level) const {
  return FindUnfinished(level) != entries_.size();
}

WallTime AckManager::head_create_time() const {
  for (std::size_t i = head_; i < entries_.size(); ++i) {
    if (!entries_[i].finished()) return WallTime{entries_[i].aux};
  }
  return {};
}

Acked AckManager::PopFinished() {
  Acked acked;
  while (head_ < entries_.size() && entries_[head_].finished()) {
    const Entry& entry = entries_[head_];
    acked.count += entry.counted;
    acked.dropped += entry.aux;
    MoveAck(entry.level);
    if (MR_MUTANT(ack_level_off_by_one) && ack_level_ < read_level_) ++ack_level_.id.value;
    ++head_;
  }
  if (head_ == entries_.size()) {
    entries_.clear();
    head_ = 0;
    if (entries_.capacity() > kKeptCapacity) std::vector<Entry>().swap(entries_);
    if (!MR_MUTANT(ack_level_stays_behind_gap)) MoveAck(read_level_);
  }
  return acked;
}

void AckManager::Compact() {
  // At most 2 * outstanding + 1 are left, so the next compaction is as far away as this one is
  // long.
  if (entries_.size() <= 4 * outstanding_ + 2 * kSlack) return;
  std::size_t out = 0;
  for (std::size_t i = head_; i < entries_.size(); ++i) {
    const Entry entry = entries_[i];
    if (out > 0 && entry.finished() && entries_[out - 1].finished()) {
      Entry& run = entries_[out - 1];
      run.level = entry.level;
      run.counted += entry.counted;
      run.aux += entry.aux;
    } else {
      entries_[out++] = entry;
    }
  }
  entries_.resize(out);
  head_ = 0;
  if (entries_.capacity() > 4 * std::max(out, kSlack)) entries_.shrink_to_fit();
}

}  // namespace millrace::core
