#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/store/types.h"

namespace millrace::store {

// Byte strings whose byte order is the order of what they stand for; docs/storage_format.md draws
// them. Shared by the stores that keep rows under byte keys.

// Integers, big endian, signed ones with the sign bit flipped.
void AppendOrdered8(std::uint8_t value, std::string& out);
void AppendOrdered16(std::uint16_t value, std::string& out);
void AppendOrdered32(std::int32_t value, std::string& out);
void AppendOrdered64(std::int64_t value, std::string& out);

// Each takes its bytes off the front of `in`. False when there are too few; `in` is then
// unspecified.
bool TakeOrdered8(std::string_view& in, std::uint8_t& value);
bool TakeOrdered16(std::string_view& in, std::uint16_t& value);
bool TakeOrdered32(std::string_view& in, std::int32_t& value);
bool TakeOrdered64(std::string_view& in, std::int64_t& value);

// Queue names carry their lengths, so no encoded queue is a prefix of another whatever bytes the
// names hold. The key must be valid (ValidateQueueKey).
void AppendQueueKey(const PhysicalQueueKey& queue, std::string& out);
std::string EncodeQueueKey(const PhysicalQueueKey& queue);
bool TakeQueueKey(std::string_view& in, PhysicalQueueKey& queue);

void AppendTaskKey(const TaskKey& key, std::string& out);
bool TakeTaskKey(std::string_view& in, TaskKey& key);

// Tokens of ListQueues: printable, naming the last queue of the page before.
std::string EncodePageToken(std::string_view encoded_queue_key);
// The encoded queue key; empty for the empty token. kInvalidArgument when `token` was not made by
// EncodePageToken.
Result<std::string> DecodePageToken(std::string_view token);

}  // namespace millrace::store
