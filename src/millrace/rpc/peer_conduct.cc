#include "millrace/rpc/peer_conduct.h"

namespace millrace::rpc {
namespace {

constexpr std::uint32_t kUselessFramesMax = 10'000;
constexpr std::size_t kUselessBytesMax = 1u << 20;
constexpr int kPingStrikesMax = 2;

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

std::string_view PeerConduct::OnPing(Instant now) {
  if (last_ping_ != Instant{} && now - last_ping_ < ping_interval_min_) ++ping_strikes_;
  last_ping_ = now;
  return ping_strikes_ > kPingStrikesMax ? "too_many_pings" : "";
}

}  // namespace millrace::rpc
