#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "millrace/temporal/task_queue_name.h"

namespace millrace::temporal {

// Which of a fixed list of hosts a cluster without gossip gives something to.

// 1 to `shards`. `shards` > 0.
std::int32_t HistoryShardOf(std::string_view namespace_id, std::string_view workflow_id,
                            std::int32_t shards);
// Index into a list of `hosts` > 0.
std::size_t HistoryHostOf(std::int32_t shard, std::size_t hosts);
std::size_t MatchingHostOf(const Partition& partition, std::size_t hosts);

}  // namespace millrace::temporal
