#include "millrace/rpc/peer_conduct.h"

namespace millrace::rpc {
namespace {

constexpr std::uint32_t kUselessFramesMax = 10'000;
constexpr std::size_t kUselessBytesMax = 1u << 20;
constexpr int kPingStrikesMax = 2;
constexpr Duration kIntervalWithoutCalls = std::chrono::hours(2);

}  // namespace

std::string_view PeerConduct::OnFrame() {
  return ++frames_ == kUselessFramesMax ? "too many frames without purpose" : "";
}

std::string_view PeerConduct::OnBytes(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= kUselessBytesMax) return "";
  bytes_ = 0;
  return "too many bytes without purpose";
}

std::string_view PeerConduct::OnPing(Instant now, bool calls_in_flight) {
  const Duration interval_min =
      pings_.only_with_calls && !calls_in_flight ? kIntervalWithoutCalls : pings_.interval_min;
  if (last_ping_ != Instant{} && now - last_ping_ < interval_min) ++ping_strikes_;
  last_ping_ = now;
  return ping_strikes_ > kPingStrikesMax ? "too_many_pings" : "";
}

}  // namespace millrace::rpc
