#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace millrace::store {

// One write batch found in a log.
struct WalRecord {
  std::size_t begin = 0;  // Where its first header starts in the file.
  std::size_t end = 0;
  std::uint64_t first_sequence = 0;
  std::uint32_t count = 0;                      // Sequence numbers it uses.
  std::optional<std::uint64_t> synced_through;  // Its claim (wal_claim.h).

  [[nodiscard]] std::uint64_t next_sequence() const { return first_sequence + count; }
};

struct WalScan {
  // Where the good records from the start of the file end.
  std::size_t good_bytes = 0;
  // All that is behind them is damage. False: the file ends there.
  bool damaged = false;
};

// Reads a RocksDB log as the bytes lie in the file, checksums included: for knowing what recovery
// would do, and drop, before it does it. `good` sees the records up to the first damage, in order;
// `behind` every later one whose first part is whole, wherever in the file it can be found again
// (end and completeness are then not known).
WalScan ScanWal(std::string_view log, const std::function<void(const WalRecord&)>& good,
                const std::function<void(const WalRecord&)>& behind);

}  // namespace millrace::store
