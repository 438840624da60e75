#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "millrace/base/random.h"
#include "millrace/base/time.h"

namespace millrace::sim {

enum class StoreOp : std::uint8_t {
  kCommit,
  kReadMetadata,
  kReadTasks,
  kDeleteTasksThrough,
  kReadSideRows,
  kListQueues,
  kDeleteQueue,
  kReadRangeIds,
};
inline constexpr int kStoreOpCount = 8;
std::string_view StoreOpName(StoreOp op);
[[nodiscard]] constexpr bool IsWrite(StoreOp op) {
  return op == StoreOp::kCommit || op == StoreOp::kDeleteTasksThrough ||
         op == StoreOp::kDeleteQueue;
}

// What goes wrong with one store call. For a read, all but kNone, kStall and kDamagedRead mean
// kUnavailable (kResourceExhausted stays what it is): an unknown outcome exists only where
// something may have changed.
enum class FaultKind : std::uint8_t {
  kNone,
  kUnavailable,        // Not applied, kUnavailable.
  kResourceExhausted,  // Not applied, kResourceExhausted.
  kReplyLost,          // Applied; the caller gets kUnknownOutcome.
  kNotApplied,         // Never applied; the caller gets kUnknownOutcome.
  kAppliedLate,  // The caller gets kUnknownOutcome now; applied later if its condition still holds
                 // then.
  kStall,        // Applied and answered, but much later; writes of the same queue wait behind it.
  kDamagedRead,  // A read meets damaged bytes once, kCorruption; a write is kUnavailable.
};
inline constexpr int kFaultKindCount = 8;
std::string_view FaultKindName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kNone;
  // Until the call takes effect in the store, and from there until the caller hears of it.
  Duration before = Duration::zero();
  Duration after = Duration::zero();
  // kAppliedLate: from the answer until the store sees the write.
  Duration late_by = Duration::zero();
};

struct FaultRates {
  // Out of 1,000 calls each.
  int unavailable = 0;
  int resource_exhausted = 0;
  int reply_lost = 0;
  int not_applied = 0;
  int applied_late = 0;
  int stall = 0;
  int damaged_read = 0;

  Duration latency_max = std::chrono::milliseconds(5);
  Duration stall_max = std::chrono::seconds(8);
  Duration late_max = std::chrono::seconds(8);
};

// Decides the fate of every store call. Thread: one at a time.
class FaultPlan {
 public:
  virtual ~FaultPlan() = default;
  virtual Fault Next(StoreOp op) = 0;
};

// Everything works, and at once.
class NoFaults final : public FaultPlan {
 public:
  Fault Next(StoreOp) override { return {}; }
};

// The n-th call (from 0) has the given fault, all others work. A test runs its scenario with n = 0,
// 1, 2, ... until reached() stays false. kStall and kAppliedLate take 1 s.
class NthFault final : public FaultPlan {
 public:
  NthFault(std::uint64_t n, FaultKind kind) : n_(n), kind_(kind) {}
  // Counts only calls of one kind.
  NthFault(std::uint64_t n, FaultKind kind, StoreOp only)
      : n_(n), kind_(kind), only_(only), any_(false) {}

  Fault Next(StoreOp op) override;
  [[nodiscard]] bool reached() const { return calls_ > n_; }
  // The call that got the fault. Only when reached.
  [[nodiscard]] StoreOp op() const { return op_; }

 private:
  const std::uint64_t n_;
  const FaultKind kind_;
  const StoreOp only_ = StoreOp::kCommit;
  const bool any_ = true;
  std::uint64_t calls_ = 0;
  StoreOp op_ = StoreOp::kCommit;
};

// Draws faults and latencies by the given rates. Setting other rates takes effect with the next
// call.
class RandomFaults final : public FaultPlan {
 public:
  RandomFaults(Random& random, const FaultRates& rates) : random_(random), rates_(rates) {}

  Fault Next(StoreOp op) override;
  void SetRates(const FaultRates& rates) { rates_ = rates; }
  [[nodiscard]] std::uint64_t drawn(FaultKind kind) const { return drawn_[static_cast<int>(kind)]; }

 private:
  Duration Below(Duration max);

  Random& random_;
  FaultRates rates_;
  std::uint64_t drawn_[kFaultKindCount] = {};
};

}  // namespace millrace::sim
