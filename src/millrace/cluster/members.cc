#include "millrace/cluster/members.h"

#include <algorithm>

namespace millrace::cluster {
namespace {

// FNV-1a, then mixed, since its upper bits know little of the last bytes.
std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t HashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return Mix(hash);
}

}  // namespace

Members::Members(std::vector<Member> members) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.id < b.id; });
  std::uint64_t all = members.size();
  for (Member& member : members) {
    const std::uint64_t hash = HashOf(member.id);
    all = Mix(Mix(all ^ hash) + member.incarnation);
    entries_.push_back({std::move(member.id), hash});
  }
  fingerprint_ = all == 0 ? 1 : all;
}

const std::string* Members::OwnerOf(std::string_view queue) const {
  const std::uint64_t hash = HashOf(queue);
  const Entry* best = nullptr;
  std::uint64_t best_claim = 0;
  for (const Entry& entry : entries_) {
    // Of equal claims the first id's counts.
    const std::uint64_t claim = Mix(hash ^ entry.hash);
    if (best == nullptr || claim > best_claim) {
      best = &entry;
      best_claim = claim;
    }
  }
  return best == nullptr ? nullptr : &best->id;
}

bool Members::Owns(std::string_view id, std::string_view queue) const {
  const std::string* owner = OwnerOf(queue);
  return owner != nullptr && *owner == id;
}

bool Members::Contains(std::string_view id) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [id](const Entry& entry) { return entry.id == id; });
}

}  // namespace millrace::cluster
