#include "millrace/temporal/history_hosts.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/temporal/hosts.h"

namespace millrace::temporal {

HistoryHosts::HistoryHosts(std::vector<std::string> hosts) : listed_(std::move(hosts)) {
  MR_CHECK(!listed_.empty());
}

std::string HistoryHosts::HostOf(std::int32_t shard) const {
  MutexLock lock(mutex_);
  const auto it = learned_.find(shard);
  return it != learned_.end() ? it->second : listed_[HistoryHostOf(shard, listed_.size())];
}

bool HistoryHosts::Learn(std::int32_t shard, std::string_view host) {
  if (!IsHostAddress(host)) return false;
  MutexLock lock(mutex_);
  if (host == listed_[HistoryHostOf(shard, listed_.size())]) {
    learned_.erase(shard);
    return true;
  }
  const auto known = [&](const std::vector<std::string>& hosts) {
    return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
  };
  if (!known(listed_) && !known(learned_hosts_)) {
    if (learned_hosts_.size() >= kHostsMax) return false;
    learned_hosts_.emplace_back(host);
  }
  if (learned_.size() >= kLearnedMax && !learned_.contains(shard)) return false;
  learned_.insert_or_assign(shard, std::string(host));
  return true;
}

void HistoryHosts::Forget(std::int32_t shard, std::string_view host) {
  MutexLock lock(mutex_);
  const auto it = learned_.find(shard);
  if (it != learned_.end() && it->second == host) learned_.erase(it);
}

bool IsHostAddress(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || address.size() > 255) return false;
  const std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
  });
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return plain && error == std::errc() && end == digits.data() + digits.size() && port > 0 &&
         port <= 65'535;
}

}  // namespace millrace::temporal
