#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/mutex.h"

namespace millrace::temporal {

// Which history host has which shard: the list that all of the cluster has says where it should be,
// and a host that lost a shard says where it is.
//
// Thread: any. Bounds: `kLearnedMax` shards learned, `kHostsMax` hosts beyond the list; what would
// be more is not learned, so that a shard's host is asked for again with each call.
class HistoryHosts {
 public:
  static constexpr std::size_t kLearnedMax = 16'384;
  static constexpr std::size_t kHostsMax = 64;

  // At least one.
  explicit HistoryHosts(std::vector<std::string> hosts);

  [[nodiscard]] std::string HostOf(std::int32_t shard) const;
  // False: it cannot be, or it is not an address.
  bool Learn(std::int32_t shard, std::string_view host);
  // The shard is not there, or nobody is: back to the list.
  void Forget(std::int32_t shard, std::string_view host);

 private:
  const std::vector<std::string> listed_;
  mutable Mutex mutex_;
  std::vector<std::string> learned_hosts_ MR_GUARDED_BY(mutex_);
  std::map<std::int32_t, std::string> learned_ MR_GUARDED_BY(mutex_);
};

// "host:port" with a port above 0.
bool IsHostAddress(std::string_view address);

}  // namespace millrace::temporal
