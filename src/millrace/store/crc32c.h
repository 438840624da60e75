#pragma once

#include <cstdint>
#include <string_view>

namespace millrace::store {

// CRC-32C (Castagnoli) of `data` appended to the bytes whose checksum is `crc` (0 = none before).
std::uint32_t Crc32c(std::string_view data, std::uint32_t crc = 0);

}  // namespace millrace::store
