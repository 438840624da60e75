#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/time.h"

namespace millrace::temporal {

// Who polled a task queue lately, by worker identity.
//
// Thread: one at a time. Bounds: `max` identities; the one unheard of for longest gives way.
class PollerHistory {
 public:
  struct Entry {
    std::string identity;
    Instant last;
    WallTime last_wall;
    // What else is known of the worker; opaque here.
    std::string about;
  };

  PollerHistory(Duration keep, std::size_t max) : keep_(keep), max_(max) {}

  void Saw(const std::string& identity, std::string about, Instant now, WallTime now_wall);
  void Forget(const std::string& identity);
  // Of those seen within the time kept, in order of identity.
  [[nodiscard]] std::vector<Entry> List(Instant now) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Seen {
    Instant last;
    WallTime last_wall;
    std::string about;
  };
  using Entries = std::map<std::string, Seen>;

  void Erase(Entries::iterator it);

  const Duration keep_;
  const std::size_t max_;
  Entries entries_;
  std::set<std::pair<Instant, std::string>> by_time_;
};

}  // namespace millrace::temporal
