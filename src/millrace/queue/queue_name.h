#pragma once

#include <string>
#include <string_view>

#include "millrace/store/types.h"

namespace millrace::queue {

// Queues of the standalone product live in one namespace of the store for now.
inline constexpr char kDefaultNamespace[] = "default";
inline constexpr std::size_t kQueueNameBytesMax = 200;

// Empty when the name is good: 1 to 200 characters from A-Z a-z 0-9 . _ - / and not starting with
// "/". Otherwise what is wrong with it.
std::string CheckQueueName(std::string_view name);

store::PhysicalQueueKey QueueKey(std::string_view name);

}  // namespace millrace::queue
