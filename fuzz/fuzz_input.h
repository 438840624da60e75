#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// libFuzzer's name and types; the driver of ordinary builds calls it too.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A property that must hold whatever the input is. Ends the process, so that any driver notices.
#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

namespace millrace::fuzz {

// Takes a fuzzer's bytes apart into values. When they run out, everything is zero or empty, so any
// input is a whole one.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }

  std::uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // In [0, bound); bound at most 256.
  unsigned Below(unsigned bound) { return Byte() % bound; }
  bool Bool() { return (Byte() & 1) != 0; }

  // Eight bytes, or one that stands for a number at an edge: those are rare among random bytes.
  std::int64_t Int64() {
    const std::uint8_t kind = Byte();
    switch (kind % 8) {
      case 0:
        return static_cast<std::int8_t>(Byte());
      case 1:
        return INT64_MAX - Byte();
      case 2:
        return INT64_MIN + Byte();
      case 3:
        return std::int64_t{1} << (Byte() % 63);
      case 4:
        return INT32_MAX - static_cast<std::int64_t>(static_cast<std::int8_t>(Byte()));
      case 5:
        return static_cast<std::int64_t>(Byte()) * 1'000'000'000;
      default: {
        std::uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
        return static_cast<std::int64_t>(value);
      }
    }
  }

  // Its length is a byte or two in front of it.
  std::string_view Bytes() {
    std::size_t size = Byte();
    if (size >= 0xf0) size = (size & 0x0f) << 8 | Byte();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string String() { return std::string(Bytes()); }

  std::string_view Rest() {
    const std::string_view taken = rest_;
    rest_ = {};
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace millrace::fuzz
