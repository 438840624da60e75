#include "millrace/temporal/uuid.h"

#include <cstddef>
#include <cstdint>

namespace millrace::temporal {
namespace {

constexpr std::size_t kChars = 36;

bool IsDash(std::size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

}  // namespace

std::string NewUuid(Random& random) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::uint64_t high = random.Next();
  std::uint64_t low = random.Next();
  high = (high & ~std::uint64_t{0xf000}) | 0x4000;                     // Version.
  low = (low & ~(std::uint64_t{3} << 62)) | (std::uint64_t{1} << 63);  // Variant.
  std::string text;
  text.reserve(kChars);
  int digit = 0;
  while (text.size() < kChars) {
    if (IsDash(text.size())) {
      text.push_back('-');
      continue;
    }
    const std::uint64_t word = digit < 16 ? high : low;
    text.push_back(kDigits[(word >> (60 - 4 * (digit % 16))) & 15]);
    ++digit;
  }
  return text;
}

bool IsUuid(std::string_view text) {
  if (text.size() != kChars) return false;
  for (std::size_t i = 0; i < kChars; ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (IsDash(i) ? c != '-' : !hex) return false;
  }
  return true;
}

}  // namespace millrace::temporal
