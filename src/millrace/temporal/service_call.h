#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/base/time.h"
#include "millrace/rpc/parse_request.h"
#include "millrace/rpc/service.h"
#include "millrace/temporal/uuid.h"

namespace millrace::temporal {

using rpc::ParseRequest;

inline rpc::RpcStatus InvalidArgument(std::string message) {
  return {rpc::Code::kInvalidArgument, std::move(message), {}};
}

// Zero when not set, negative, or beyond a hundred years (which is for ever).
inline Duration LifeFrom(const google::protobuf::Duration& duration) {
  constexpr std::int64_t kSecondsMax = 100LL * 366 * 24 * 3600;
  if (duration.seconds() < 0 || duration.nanos() < 0 || duration.nanos() > 999'999'999) return {};
  if (duration.seconds() > kSecondsMax) return {};
  return std::chrono::seconds(duration.seconds()) + std::chrono::nanoseconds(duration.nanos());
}

inline void SetDuration(Duration value, google::protobuf::Duration* out) {
  out->set_seconds(value.count() / 1'000'000'000);
  out->set_nanos(static_cast<std::int32_t>(value.count() % 1'000'000'000));
}

// `value` is not before 1970.
inline void SetTime(WallTime value, google::protobuf::Timestamp* out) {
  out->set_seconds(value.ns / 1'000'000'000);
  out->set_nanos(static_cast<std::int32_t>(value.ns % 1'000'000'000));
}

}  // namespace millrace::temporal
