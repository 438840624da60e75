#include "millrace/store/rocksdb/wal_claim.h"

namespace millrace::store {
namespace {

constexpr std::string_view kTag = "mrs1";
constexpr std::size_t kSize = 4 + 8;

}  // namespace

std::string EncodeWalClaim(std::uint64_t synced_through) {
  std::string blob(kTag);
  for (int shift = 56; shift >= 0; shift -= 8) {
    blob.push_back(static_cast<char>(synced_through >> shift));
  }
  return blob;
}

std::optional<std::uint64_t> DecodeWalClaim(std::string_view blob) {
  if (blob.size() != kSize || !blob.starts_with(kTag)) return std::nullopt;
  std::uint64_t through = 0;
  for (const char c : blob.substr(kTag.size()))
    through = through << 8 | static_cast<unsigned char>(c);
  return through;
}

}  // namespace millrace::store
