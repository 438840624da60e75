#include "millrace/temporal/hosts.h"

#include <string>

#include <farmhash.h>

#include "millrace/base/check.h"

namespace millrace::temporal {
namespace {

std::size_t HostOfKey(const std::string& key, std::size_t hosts) {
  MR_CHECK(hosts > 0);
  return util::Fingerprint32(key.data(), key.size()) % hosts;
}

}  // namespace

std::int32_t HistoryShardOf(std::string_view namespace_id, std::string_view workflow_id,
                            std::int32_t shards) {
  MR_CHECK(shards > 0);
  std::string key;
  key.reserve(namespace_id.size() + 1 + workflow_id.size());
  key.append(namespace_id).append("_").append(workflow_id);
  const std::uint32_t hash = util::Fingerprint32(key.data(), key.size());
  return static_cast<std::int32_t>(hash % static_cast<std::uint32_t>(shards)) + 1;
}

std::size_t HistoryHostOf(std::int32_t shard, std::size_t hosts) {
  return HostOfKey(std::to_string(shard), hosts);
}

std::size_t MatchingHostOf(const Partition& partition, std::size_t hosts) {
  return HostOfKey(partition.RoutingKey(), hosts);
}

}  // namespace millrace::temporal
