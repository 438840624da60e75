#include "millrace/temporal/poller_history.h"

namespace millrace::temporal {

void PollerHistory::Saw(const std::string& identity, std::string about, Instant now,
                        WallTime now_wall) {
  while (!by_time_.empty() && by_time_.begin()->first + keep_ <= now) {
    Erase(entries_.find(by_time_.begin()->second));
  }
  auto it = entries_.find(identity);
  if (it != entries_.end()) {
    auto node = by_time_.extract({it->second.last, identity});
    node.value().first = now;
    by_time_.insert(std::move(node));
    it->second = Seen{now, now_wall, std::move(about)};
    return;
  }
  if (entries_.size() >= max_) Erase(entries_.find(by_time_.begin()->second));
  entries_.emplace(identity, Seen{now, now_wall, std::move(about)});
  by_time_.emplace(now, identity);
}

void PollerHistory::Forget(const std::string& identity) {
  const auto it = entries_.find(identity);
  if (it != entries_.end()) Erase(it);
}

void PollerHistory::Erase(Entries::iterator it) {
  by_time_.erase({it->second.last, it->first});
  entries_.erase(it);
}

std::vector<PollerHistory::Entry> PollerHistory::List(Instant now) const {
  std::vector<Entry> list;
  for (const auto& [identity, seen] : entries_) {
    if (seen.last + keep_ > now) list.push_back({identity, seen.last, seen.last_wall, seen.about});
  }
  return list;
}

}  // namespace millrace::temporal
