#include "millrace/sim/fault_plan.h"

#include <array>
#include <utility>

namespace millrace::sim {

std::string_view StoreOpName(StoreOp op) {
  static constexpr std::array<std::string_view, kStoreOpCount> kNames = {
      "Commit",       "ReadMetadata", "ReadTasks",   "DeleteTasksThrough",
      "ReadSideRows", "ListQueues",   "DeleteQueue", "ReadRangeIds"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view FaultKindName(FaultKind kind) {
  static constexpr std::array<std::string_view, kFaultKindCount> kNames = {
      "none",         "unavailable", "resource_exhausted", "reply_lost", "not_applied",
      "applied_late", "stall",       "damaged_read"};
  return kNames[static_cast<std::size_t>(kind)];
}

Fault NthFault::Next(StoreOp op) {
  if (!any_ && op != only_) return {};
  if (calls_++ != n_) return {};
  op_ = op;
  Fault fault{.kind = kind_};
  if (kind_ == FaultKind::kStall) fault.before = std::chrono::seconds(1);
  if (kind_ == FaultKind::kAppliedLate) fault.late_by = std::chrono::seconds(1);
  return fault;
}

Duration RandomFaults::Below(Duration max) {
  return Duration(
      static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(max.count()) + 1)));
}

Fault RandomFaults::Next(StoreOp) {
  Fault fault{.before = Below(rates_.latency_max), .after = Below(rates_.latency_max)};
  const std::array<std::pair<FaultKind, int>, 7> table = {
      {{FaultKind::kUnavailable, rates_.unavailable},
       {FaultKind::kResourceExhausted, rates_.resource_exhausted},
       {FaultKind::kReplyLost, rates_.reply_lost},
       {FaultKind::kNotApplied, rates_.not_applied},
       {FaultKind::kAppliedLate, rates_.applied_late},
       {FaultKind::kStall, rates_.stall},
       {FaultKind::kDamagedRead, rates_.damaged_read}}};
  auto lot = static_cast<int>(random_.Below(1'000));
  for (const auto& [kind, rate] : table) {
    if (lot < rate) {
      fault.kind = kind;
      break;
    }
    lot -= rate;
  }
  if (fault.kind == FaultKind::kStall) fault.before += Below(rates_.stall_max);
  if (fault.kind == FaultKind::kAppliedLate) fault.late_by = Below(rates_.late_max);
  ++drawn_[static_cast<int>(fault.kind)];
  return fault;
}

}  // namespace millrace::sim
