#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/ids.h"

namespace millrace::queue {

// Names one lease of one task, unique for ever: the queue (a random number given at its creation),
// the owner's epoch (its range id, which every owner takes anew), and a counter of that owner. The
// task id only finds the lease quickly.
struct LeaseToken {
  std::uint64_t queue_uid = 0;
  RangeId epoch;
  std::uint64_t counter = 0;
  TaskId task;

  friend bool operator==(const LeaseToken&, const LeaseToken&) = default;
};

inline constexpr std::size_t kLeaseTokenBytes = 33;

// The format's number (one byte), then four big-endian 64-bit numbers. As base64url text that is 44
// characters without padding, the first always 'A', so that a shell never takes a token for a flag.
std::string EncodeLeaseToken(const LeaseToken& token);
// Nothing when the bytes were never a token.
std::optional<LeaseToken> DecodeLeaseToken(std::string_view bytes);

}  // namespace millrace::queue
