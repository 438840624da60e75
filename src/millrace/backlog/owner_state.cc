#include "millrace/backlog/owner_state.h"

namespace millrace::backlog {
namespace {

constexpr unsigned char kFormat = 1;

void AppendVarint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

bool TakeByte(std::string_view& in, unsigned char& byte) {
  if (in.empty()) return false;
  byte = static_cast<unsigned char>(in.front());
  in.remove_prefix(1);
  return true;
}

bool TakeVarint(std::string_view& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    unsigned char byte = 0;
    if (!TakeByte(in, byte) || (shift == 63 && byte > 1)) return false;
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

bool Decode(std::string_view in, OwnerState& state) {
  unsigned char byte = 0;
  if (!TakeByte(in, byte) || byte != kFormat) return false;
  for (int i = 0; i < 8; ++i) {
    if (!TakeByte(in, byte)) return false;
    state.nonce = state.nonce << 8 | byte;
  }
  std::uint64_t range_size = 0;
  std::uint64_t count = 0;
  if (!TakeVarint(in, state.write_seq) || !TakeVarint(in, range_size) || !TakeVarint(in, count))
    return false;
  state.range_size = static_cast<std::int64_t>(range_size);
  if (state.range_size < 1 || count > state.totals.size()) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t value = 0;
    if (!TakeVarint(in, value)) return false;
    state.totals[i] = UnZigZag(value);
  }
  return in.empty();
}

}  // namespace

std::string EncodeOwnerState(const OwnerState& state) {
  std::string out;
  out.reserve(48);
  out.push_back(static_cast<char>(kFormat));
  for (int shift = 56; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(state.nonce >> shift));
  AppendVarint(out, state.write_seq);
  AppendVarint(out, static_cast<std::uint64_t>(state.range_size));
  AppendVarint(out, state.totals.size());
  for (const std::int64_t total : state.totals) AppendVarint(out, ZigZag(total));
  return out;
}

Result<OwnerState> DecodeOwnerState(std::string_view bytes) {
  OwnerState state;
  if (bytes.empty()) return state;
  if (!Decode(bytes, state))
    return Status(StatusCode::kCorruption, "the queue's owner state does not parse");
  return state;
}

}  // namespace millrace::backlog
