#pragma once

#include <cstddef>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/store/task_store.h"
#include "millrace/store/types.h"

namespace millrace::store {

// The limits every store keeps, checked before anything is touched. kInvalidArgument names what is
// wrong.
inline constexpr std::size_t kNamespaceIdBytesMax = 255;
inline constexpr std::size_t kPersistenceNameBytesMax = 1'000;
inline constexpr std::size_t kSideKeyBytesMax = 255;
inline constexpr std::size_t kOwnerStateBytesMax = 4u << 10;
inline constexpr std::size_t kSubqueuesMax = 1u << 20;
inline constexpr std::size_t kValueBytesMax = 16u << 20;

Status ValidateQueueKey(const PhysicalQueueKey& queue);
Status ValidateWrite(const QueueWrite& write);
// kFenced, with both numbers in the message.
Status FencedStatus(RangeId expected, RangeId stored);
// `limit` of a page or deletion.
Status ValidateLimit(std::size_t limit);

}  // namespace millrace::store
