#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::store {

// A note that every write batch carries into the log, and nowhere else: "when this was written,
// everything up to this sequence number had been synced". It tells damage to acknowledged work
// apart from a torn tail (wal_check.h).
std::string EncodeWalClaim(std::uint64_t synced_through);
// Nothing when `blob` is not such a note.
std::optional<std::uint64_t> DecodeWalClaim(std::string_view blob);

}  // namespace millrace::store
