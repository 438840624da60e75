#pragma once

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "millrace/base/time.h"

// Between protobuf's times and ours. Out-of-range values cannot come from a healthy server and
// saturate at about 292 years.
namespace millrace::cli {

inline void SetDuration(google::protobuf::Duration& to, Duration from) {
  to.set_seconds(from.count() / 1'000'000'000);
  to.set_nanos(static_cast<std::int32_t>(from.count() % 1'000'000'000));
}

inline Duration ToDuration(const google::protobuf::Duration& from) {
  constexpr std::int64_t kSecondsMax = 9'000'000'000;
  if (from.seconds() > kSecondsMax) return Duration(kSecondsMax * 1'000'000'000);
  if (from.seconds() < -kSecondsMax) return Duration(-kSecondsMax * 1'000'000'000);
  return Duration(from.seconds() * 1'000'000'000 + from.nanos());
}

}  // namespace millrace::cli
