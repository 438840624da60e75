#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::queue {

// Byte-level pieces of the formats in docs/storage_format.md: big-endian fixed numbers (they order
// as bytes do) and LEB128 unsigned varints.

inline void AppendFixed64(std::string& out, std::uint64_t value) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  out.append(bytes, 8);
}

inline void AppendVarint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

inline void AppendSized(std::string& out, std::string_view bytes) {
  AppendVarint(out, bytes.size());
  out.append(bytes);
}

// Reads from the front of a view. After the first short or malformed read everything fails.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  bool Fixed64(std::uint64_t* value) {
    if (rest_.size() < 8) return Fail();
    *value = 0;
    for (int i = 0; i < 8; ++i)
      *value = *value << 8 | static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]);
    rest_.remove_prefix(8);
    return true;
  }

  bool Byte(std::uint8_t* value) {
    if (rest_.empty()) return Fail();
    *value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return true;
  }

  bool Varint(std::uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      std::uint8_t byte = 0;
      if (!Byte(&byte)) return false;
      // Too large, or not the shortest form: nobody wrote that.
      if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) return Fail();
      *value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return Fail();
  }

  bool Sized(std::string_view* bytes) {
    std::uint64_t size = 0;
    if (!Varint(&size)) return false;
    if (size > rest_.size()) return Fail();
    *bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool done() const { return !failed_ && rest_.empty(); }

 private:
  bool Fail() {
    failed_ = true;
    rest_ = {};
    return false;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace millrace::queue
