#include "millrace/store/crc32c.h"

#include <array>
#include <cstddef>

namespace millrace::store {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Bits reversed.

// Tables for eight bytes a step: table[k][b] is the checksum of byte b followed by k zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

}  // namespace

std::uint32_t Crc32c(std::string_view data, std::uint32_t crc) {
  const auto byte = [&data](std::size_t i) { return static_cast<unsigned char>(data[i]); };
  crc = ~crc;
  while (data.size() >= 8) {
    crc ^= static_cast<std::uint32_t>(byte(0)) | static_cast<std::uint32_t>(byte(1)) << 8 |
           static_cast<std::uint32_t>(byte(2)) << 16 | static_cast<std::uint32_t>(byte(3)) << 24;
    crc = kTables[7][crc & 0xff] ^ kTables[6][(crc >> 8) & 0xff] ^ kTables[5][(crc >> 16) & 0xff] ^
          kTables[4][crc >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
          kTables[0][byte(7)];
    data.remove_prefix(8);
  }
  for (const char c : data) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

void AppendChecksum(std::uint32_t crc, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(crc >> shift));
}

std::uint32_t ReadChecksum(std::string_view bytes) {
  std::uint32_t crc = 0;
  for (const char c : bytes) crc = crc << 8 | static_cast<unsigned char>(c);
  return crc;
}

}  // namespace millrace::store
