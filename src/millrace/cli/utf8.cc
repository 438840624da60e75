#include "millrace/cli/utf8.h"

namespace millrace::cli {

std::size_t Utf8Length(std::string_view bytes) {
  const auto byte = [bytes](std::size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
  };
  const auto tail = [&byte](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  const unsigned second = byte(1);
  if (bytes.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || !tail(1)) return 0;
  if (lead < 0xE0) return 2;
  // Neither longer than needed, nor a surrogate, nor above U+10FFFF.
  if (lead < 0xF0) {
    return tail(2) && !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second >= 0xA0) ? 3 : 0;
  }
  if (lead > 0xF4 || (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return 0;
  return tail(2) && tail(3) ? 4 : 0;
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = Utf8Length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

}  // namespace millrace::cli
