#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/base/time.h"
#include "millrace/queue/errors.h"
#include "millrace/queue/queue_name.h"

namespace millrace::queue {

// Nothing when the message is not a valid Duration or lies beyond +-10,000 years.
std::optional<Duration> FromProto(const google::protobuf::Duration& duration);
void ToProto(Duration duration, google::protobuf::Duration* out);
void ToProto(WallTime time, google::protobuf::Timestamp* out);

// Checks of request fields: each adds to `errors` what is wrong.
void CheckQueue(const std::string& name, FieldErrors& errors);
void CheckItemCount(const char* field, int count, std::size_t max, FieldErrors& errors);
// `fallback` when the field is not set.
Duration CheckDuration(const char* field, bool is_set, const google::protobuf::Duration& value,
                       Duration fallback, Duration min, Duration max, FieldErrors& errors);
// A page size: 0 = `fallback`.
std::size_t CheckPageSize(std::int32_t value, std::size_t fallback, std::size_t max,
                          FieldErrors& errors);

// Page tokens are opaque bytes carried as unpadded base64url.
std::string EncodePageToken(const std::string& bytes);
// Nothing when `token` was never made by EncodePageToken.
std::optional<std::string> DecodePageToken(const std::string& token);

}  // namespace millrace::queue
