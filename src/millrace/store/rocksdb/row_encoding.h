#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/store/types.h"

namespace millrace::store {

// Keys and values of the embedded store, byte for byte as docs/storage_format.md says. A changed
// layout needs a new version byte, and new golden vectors beside the old ones.

// Keys: one byte for the kind, then the queue, then what the kind needs. Metadata rows of all
// queues lie together, so that listing queues never walks over task rows.
enum class RowKind : char { kMetadata = 'm', kSide = 's', kTask = 't' };

// Each replaces `out`. `queue` is the encoded queue key (key_encoding.h).
void BuildKeyPrefix(RowKind kind, std::string_view queue, std::string& out);
void BuildTaskKey(std::string_view queue, const TaskKey& key, std::string& out);
void BuildSideKey(std::string_view queue, std::string_view key, std::string& out);

// The smallest key above every key that starts with `prefix`. `prefix` holds a byte below 0xff (a
// kind does).
std::string AfterPrefix(std::string_view prefix);

// The task key behind a task row's queue prefix. False: not a task key.
bool ParseTaskKey(std::string_view key, std::size_t prefix_size, TaskKey& out);

// Each replaces `out`. The metadata value holds a checksum over its key and itself.
void EncodeMetadata(std::string_view key, const QueueMetadata& metadata, std::string& out);
void EncodeTaskHeader(const TaskRow& row, std::string& out);  // The payload follows it.
void EncodeSideHeader(std::string& out);                      // The value follows it.

// kCorruption when the bytes cannot have been written by an Encode of any version up to this one.
Result<QueueMetadata> DecodeMetadata(std::string_view key, std::string_view value);
// Everything but the key.
Status DecodeTask(std::string_view value, TaskRow& row);
Status DecodeSide(std::string_view value, std::string& out);

}  // namespace millrace::store
