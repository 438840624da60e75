#include "millrace/base/random.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>

#include "millrace/base/check.h"

namespace millrace {

SeededRandom::SeededRandom(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    word = z ^ (z >> 31);
  }
}

std::uint64_t SeededRandom::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t SystemRandom::Next() {
  // The most that getrandom always gives in one piece.
  constexpr std::size_t kWords = 256 / sizeof(std::uint64_t);
  thread_local std::array<std::uint64_t, kWords> words;
  thread_local std::size_t left = 0;
  if (left == 0) {
    MR_CHECK(getrandom(words.data(), sizeof(words), 0) == sizeof(words));
    left = kWords;
  }
  return words[--left];
}

}  // namespace millrace
