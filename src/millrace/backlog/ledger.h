#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/backlog/owner_state.h"
#include "millrace/core/ack_manager.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

// Counts of one queue: rows stored per subqueue, and totals. Stored numbers are the last certain
// ones plus what the same atomic write changes, so a crash cannot part them from the rows.
//
//   certain --BeginWrite, Add..., Finish--> sent --Applied | Refused--> certain
//                                            `--------Decided---------> certain
//
// Pure. Invariants: one write at a time. A stored count is never below 0.
class Ledger {
 public:
  Ledger(std::uint64_t nonce, std::int64_t range_size);

  // Takes over what is stored; before the first write of this owner.
  void Load(const store::QueueMetadata& metadata, const OwnerState& state);
  void EnsureSubqueues(std::size_t count);
  [[nodiscard]] std::size_t subqueues() const { return subqueues_.size(); }

  // Changes in memory that the next write carries.
  void Ack(store::Subqueue subqueue, const core::Acked& acked);
  // The subqueue is known to be empty. What was counted until now counts as done, so that totals
  // and counts still add up. Not while a write is sent. False when the count was 0 already.
  bool SetEmpty(store::Subqueue subqueue);

  void BeginWrite();
  void AddCreated(store::Subqueue subqueue, std::int64_t rows);
  void AddDeleted(store::Subqueue subqueue, std::int64_t rows);
  void AddTotal(Total total, std::int64_t n) { At(sent_totals_, total) += n; }
  // Fills in counts and owner state of the write; returns its number. `metadata.subqueues` must
  // have its size.
  std::uint64_t FinishWrite(store::QueueMetadata& metadata);

  void Applied();
  void Refused();
  // The sent write had an unknown outcome; `metadata` was read after it was fenced.
  void Decided(bool applied, const store::QueueMetadata& metadata, const OwnerState& state);
  // True when `state` was written by the sent write, or after it by this owner.
  [[nodiscard]] bool WroteSent(const OwnerState& state) const;

  [[nodiscard]] const Totals& totals() const { return totals_; }
  // What may be stored: includes rows of a write under way, from before it is sent until it surely
  // failed.
  [[nodiscard]] std::int64_t Count(store::Subqueue subqueue) const;
  [[nodiscard]] std::int64_t TotalCount() const;
  [[nodiscard]] bool sent() const { return sent_; }

 private:
  struct Counts {
    std::int64_t certain = 0;
    std::int64_t unsaved = 0;       // Changes of memory not sent yet.
    std::int64_t sent_unsaved = 0;  // The same, in the write under way.
    std::int64_t sent_created = 0;
    std::int64_t sent_deleted = 0;

    [[nodiscard]] std::int64_t AfterWrite() const;
  };

  void EndWrite();

  const std::uint64_t nonce_;
  const std::int64_t range_size_;
  std::uint64_t write_seq_ = 0;
  bool sent_ = false;
  std::vector<Counts> subqueues_;
  Totals totals_{};
  Totals unsaved_totals_{};
  Totals sent_unsaved_totals_{};
  Totals sent_totals_{};  // The changes of the ops in the write.
};

}  // namespace millrace::backlog
