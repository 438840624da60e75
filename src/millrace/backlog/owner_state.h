#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"

namespace millrace::backlog {

// What became of accepted tasks, over the whole life of the queue. Stored with the metadata in the
// same atomic write as the rows they count, so after any crash: accepted = done + dead + dropped +
// rows still stored.
enum class Total : std::uint8_t {
  kAccepted,
  kDone,
  kDead,
  kDroppedExpired,
  kDroppedInvalid,
  kCount
};
using Totals = std::array<std::int64_t, static_cast<std::size_t>(Total::kCount)>;

[[nodiscard]] inline std::int64_t& At(Totals& totals, Total total) {
  return totals[static_cast<std::size_t>(total)];
}
[[nodiscard]] inline std::int64_t At(const Totals& totals, Total total) {
  return totals[static_cast<std::size_t>(total)];
}

// The backlog's part of the metadata row (QueueMetadata::owner_state). Bytes:
//
//   1 byte   format, 1
//   8 bytes  nonce of the owner that wrote it, big-endian
//   varint   number of the write, one more with each conditional write of the queue
//   varint   range size: ids per task-id block
//   varint   how many totals follow, then each as a zigzag varint, in the order of Total
//
// Varints are LEB128. A reader takes fewer totals for zeros and refuses more than it knows.
struct OwnerState {
  std::uint64_t nonce = 0;
  std::uint64_t write_seq = 0;
  std::int64_t range_size = 0;
  Totals totals{};

  friend bool operator==(const OwnerState&, const OwnerState&) = default;
};

std::string EncodeOwnerState(const OwnerState& state);
// kCorruption when the bytes are not such a state. Empty bytes are a queue that nobody has written
// to yet.
Result<OwnerState> DecodeOwnerState(std::string_view bytes);

}  // namespace millrace::backlog
