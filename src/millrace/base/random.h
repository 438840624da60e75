#pragma once

#include <cstdint>

namespace millrace {

// Source of randomness, injected everywhere so that a simulation can repeat itself. Thread:
// implementations say.
class Random {
 public:
  virtual ~Random() = default;
  // Uniform over all 64-bit values.
  virtual std::uint64_t Next() = 0;

  // Uniform in [0, bound). bound > 0. The modulo bias is below 2^-32 for bounds under 2^32.
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  // True with probability numerator / denominator.
  bool Chance(std::uint64_t numerator, std::uint64_t denominator) {
    return Below(denominator) < numerator;
  }
};

// xoshiro256** seeded through splitmix64: fast, repeatable, not for secrets. Thread: one at a time.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed);
  std::uint64_t Next() override;

 private:
  std::uint64_t state_[4];
};

// The kernel's generator (getrandom), asked for 256 bytes at a time by each thread. A forked child
// would repeat what its parent has left; this program does not fork without exec. Thread: any.
class SystemRandom final : public Random {
 public:
  std::uint64_t Next() override;
};

}  // namespace millrace
