#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/base/function.h"
#include "millrace/base/time.h"

namespace millrace::sim {

// Running hash over everything that happened in a simulation, in order: two runs of one seed must
// end with the same value. A sink, when set, sees each event as well, to print it. Thread: one at a
// time.
class SimTrace {
 public:
  using Sink = UniqueFunction<void(Instant at, std::string_view kind, std::int64_t a,
                                   std::int64_t b, std::int64_t c)>;

  void Event(Instant at, std::string_view kind, std::int64_t a = 0, std::int64_t b = 0,
             std::int64_t c = 0) {
    Mix(static_cast<std::uint64_t>(at.ns));
    for (const char ch : kind) hash_ = (hash_ ^ static_cast<unsigned char>(ch)) * kPrime;
    Mix(static_cast<std::uint64_t>(a));
    Mix(static_cast<std::uint64_t>(b));
    Mix(static_cast<std::uint64_t>(c));
    ++events_;
    if (sink_) sink_(at, kind, a, b, c);
  }

  // One step of the scheduler; not shown to the sink.
  void Step(Instant at, std::int64_t executor) {
    Mix(static_cast<std::uint64_t>(at.ns));
    Mix(static_cast<std::uint64_t>(executor));
  }

  void SetSink(Sink sink) { sink_ = std::move(sink); }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001b3ULL;

  void Mix(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9E3779B97F4A7C15ULL;
    hash_ ^= hash_ >> 29;
  }

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::uint64_t events_ = 0;
  Sink sink_;
};

}  // namespace millrace::sim
