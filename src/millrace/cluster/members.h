#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cluster {

// The nodes that share the queues among them, and who of them should own which: rendezvous hashing.
// Each node's claim to a queue depends on those two alone, so a node that comes takes only what it
// wins, one that goes leaves only what it had, and every node comes to the same answer.
//
// Pure, constant after construction. The hash is part of what nodes of different builds must agree
// on.
class Members {
 public:
  struct Member {
    std::string id;
    std::uint64_t incarnation = 0;
  };

  Members() = default;
  // In any order; ids are different.
  explicit Members(std::vector<Member> members);

  // Null when there are none. Stays good as long as this object.
  [[nodiscard]] const std::string* OwnerOf(std::string_view queue) const;
  [[nodiscard]] bool Owns(std::string_view id, std::string_view queue) const;
  [[nodiscard]] bool Contains(std::string_view id) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  // The same for the same members; another for others. Never 0.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Entry {
    std::string id;
    std::uint64_t hash;
  };
  std::vector<Entry> entries_;  // By id.
  std::uint64_t fingerprint_ = 1;
};

}  // namespace millrace::cluster
