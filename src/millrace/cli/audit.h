#pragma once

#include <cstdint>
#include <string>

#include "millrace/v1/queue.pb.h"

namespace millrace::cli {

// The conservation law of one queue, or of several together:
//   accepted = done + waiting + leased + dead + dropped
struct Conservation {
  std::string name;
  std::int64_t accepted = 0;
  std::int64_t done = 0;
  std::int64_t waiting = 0;
  std::int64_t leased = 0;
  std::int64_t dead = 0;
  std::int64_t dropped = 0;

  [[nodiscard]] std::int64_t accounted() const { return done + waiting + leased + dead + dropped; }
  // Tasks that nobody can account for (> 0), or that were counted without having been accepted (<
  // 0).
  [[nodiscard]] std::int64_t missing() const { return accepted - accounted(); }
  [[nodiscard]] bool negative() const {
    return accepted < 0 || done < 0 || waiting < 0 || leased < 0 || dead < 0 || dropped < 0;
  }
  [[nodiscard]] bool holds() const { return missing() == 0 && !negative(); }

  void Add(const Conservation& other);
};

// From the rows that were counted one by one, if they were; else from the server's counters.
Conservation ConservationOf(const v1::QueueInfo& queue);

}  // namespace millrace::cli
