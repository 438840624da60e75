#include "millrace/store/rocksdb/wal_scan.h"

#include <algorithm>
#include <string>

#include "millrace/store/crc32c.h"
#include "millrace/store/rocksdb/wal_claim.h"

namespace millrace::store {
namespace {

// The log format of RocksDB: blocks of 32 KiB; in them fragments of a checksum (4 bytes), a length
// (2), a type (1) and data, little endian; a block's last bytes are unused when no header fits.
constexpr std::size_t kBlockBytes = 32u << 10;
constexpr std::size_t kHeaderBytes = 7;
enum FragmentType : std::uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// A write batch starts with its sequence number (8 bytes), its count (4), then entries; ours have
// the claim as the first entry: a tag, a length in one byte, the blob.
constexpr std::size_t kBatchHeaderBytes = 12;
constexpr char kLogDataTag = 0x3;

std::uint64_t LittleEndian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

struct Fragment {
  FragmentType type;
  std::string_view data;
  std::size_t end;  // In the file.
};

// The fragment whose header starts at `at`, if a whole and good one is there.
std::optional<Fragment> FragmentAt(std::string_view log, std::size_t at) {
  const std::size_t block_left = kBlockBytes - at % kBlockBytes;
  if (block_left < kHeaderBytes || log.size() - at < kHeaderBytes) return std::nullopt;
  const std::string_view header = log.substr(at, kHeaderBytes);
  const auto type = static_cast<std::uint8_t>(header[6]);
  const auto length = static_cast<std::size_t>(LittleEndian(header.substr(4, 2)));
  if (type < kFull || type > kLast) return std::nullopt;
  if (kHeaderBytes + length > std::min(block_left, log.size() - at)) return std::nullopt;
  // The checksum is over type and data, and stored rotated plus a constant.
  const std::uint32_t crc = Crc32c(log.substr(at + 6, 1 + length));
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  if (masked != static_cast<std::uint32_t>(LittleEndian(header.substr(0, 4)))) return std::nullopt;
  return Fragment{static_cast<FragmentType>(type), log.substr(at + kHeaderBytes, length),
                  at + kHeaderBytes + length};
}

// Steps over the unused end of a block.
std::size_t SkipTrailer(std::size_t at) {
  const std::size_t block_left = kBlockBytes - at % kBlockBytes;
  return block_left < kHeaderBytes ? at + block_left : at;
}

// False when the first fragment of a batch is too short to be one.
bool ParseStart(std::string_view data, WalRecord& record) {
  if (data.size() < kBatchHeaderBytes) return false;
  record.first_sequence = LittleEndian(data.substr(0, 8));
  record.count = static_cast<std::uint32_t>(LittleEndian(data.substr(8, 4)));
  record.synced_through.reset();
  data.remove_prefix(kBatchHeaderBytes);
  if (data.size() >= 2 && data[0] == kLogDataTag &&
      data.size() - 2 >= static_cast<unsigned char>(data[1])) {
    record.synced_through = DecodeWalClaim(data.substr(2, static_cast<unsigned char>(data[1])));
  }
  return true;
}

// What ParseStart needs. A first fragment at the end of a block may hold less, even nothing.
constexpr std::size_t kStartBytes = 64;

void AddToStart(std::string_view data, std::string& start) {
  if (start.size() < kStartBytes) start.append(data.substr(0, kStartBytes - start.size()));
}

// A whole record from `at` on, whose fragments follow each other.
std::optional<WalRecord> RecordAt(std::string_view log, std::size_t at) {
  WalRecord record;
  record.begin = at;
  std::optional<Fragment> fragment = FragmentAt(log, at);
  if (!fragment || (fragment->type != kFull && fragment->type != kFirst)) return std::nullopt;
  std::string start;
  AddToStart(fragment->data, start);
  while (fragment->type != kFull && fragment->type != kLast) {
    at = SkipTrailer(fragment->end);
    if (at >= log.size()) return std::nullopt;
    fragment = FragmentAt(log, at);
    if (!fragment || (fragment->type != kMiddle && fragment->type != kLast)) return std::nullopt;
    AddToStart(fragment->data, start);
  }
  record.end = fragment->end;
  if (!ParseStart(start, record)) return std::nullopt;
  return record;
}

// The start of the record that `first` is the first fragment of.
std::string StartOf(std::string_view log, const Fragment& first) {
  std::string start;
  AddToStart(first.data, start);
  const std::size_t next = SkipTrailer(first.end);
  if (first.type == kFirst && start.size() < kStartBytes && next < log.size()) {
    const std::optional<Fragment> second = FragmentAt(log, next);
    if (second && (second->type == kMiddle || second->type == kLast)) {
      AddToStart(second->data, start);
    }
  }
  return start;
}

void FindBehind(std::string_view log, std::size_t from,
                const std::function<void(const WalRecord&)>& behind) {
  for (std::size_t at = from; at < log.size();) {
    const std::optional<Fragment> fragment = FragmentAt(log, at);
    if (!fragment) {
      ++at;
      continue;
    }
    WalRecord record;
    record.begin = at;
    record.end = fragment->end;
    if ((fragment->type == kFull || fragment->type == kFirst) &&
        ParseStart(StartOf(log, *fragment), record)) {
      behind(record);
    }
    at = SkipTrailer(fragment->end);
  }
}

}  // namespace

WalScan ScanWal(std::string_view log, const std::function<void(const WalRecord&)>& good,
                const std::function<void(const WalRecord&)>& behind) {
  WalScan scan;
  for (;;) {
    const std::size_t at = SkipTrailer(scan.good_bytes);
    if (at >= log.size()) {
      scan.good_bytes = std::min(at, log.size());
      return scan;
    }
    const std::optional<WalRecord> record = RecordAt(log, at);
    if (!record) {
      scan.good_bytes = at;
      break;
    }
    good(*record);
    scan.good_bytes = record->end;
  }
  scan.damaged = true;
  FindBehind(log, scan.good_bytes + 1, behind);
  return scan;
}

}  // namespace millrace::store
