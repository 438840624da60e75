#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::store {

// CRC-32C (Castagnoli) of `data` appended to the bytes whose checksum is `crc` (0 = none before).
std::uint32_t Crc32c(std::string_view data, std::uint32_t crc = 0);

// In stored rows a checksum is four plain bytes, big endian.
inline constexpr std::size_t kChecksumBytes = 4;
void AppendChecksum(std::uint32_t crc, std::string& out);
std::uint32_t ReadChecksum(std::string_view bytes);

}  // namespace millrace::store
