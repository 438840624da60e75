// What the embedded store reads from its disk: keys, rows, page tokens, the log and its notes.

#include <cstring>

#include "fuzz_input.h"
#include "millrace/store/key_encoding.h"
#include "millrace/store/rocksdb/row_encoding.h"
#include "millrace/store/rocksdb/wal_claim.h"
#include "millrace/store/rocksdb/wal_scan.h"

namespace millrace::store {
namespace {

using fuzz::FuzzInput;

void CheckKeys(std::string_view bytes) {
  std::string_view rest = bytes;
  PhysicalQueueKey queue;
  if (TakeQueueKey(rest, queue)) {
    const std::string encoded = EncodeQueueKey(queue);
    FUZZ_CHECK(encoded == bytes.substr(0, bytes.size() - rest.size()));
    const Result<std::string> token = DecodePageToken(EncodePageToken(encoded));
    FUZZ_CHECK(token.ok() && *token == encoded);
    TaskKey task;
    if (ParseTaskKey(bytes, encoded.size(), task)) {
      std::string key = encoded;
      AppendTaskKey(task, key);
      FUZZ_CHECK(key == bytes);
    }
  }
  const Result<std::string> token = DecodePageToken(bytes);
  if (token.ok() && !token->empty()) FUZZ_CHECK(EncodePageToken(*token) == bytes);
  const std::optional<std::uint64_t> claim = DecodeWalClaim(bytes);
  if (claim) FUZZ_CHECK(EncodeWalClaim(*claim) == bytes);
}

void CheckRows(std::string_view bytes) {
  TaskRow row;
  std::string again;
  if (DecodeTask(bytes, row).ok()) {
    EncodeTaskHeader(row, again);
    FUZZ_CHECK(again + row.payload == bytes);
  }
  std::string side;
  if (DecodeSide(bytes, side).ok()) {
    EncodeSideHeader(again);
    FUZZ_CHECK(again + side == bytes);
  }
}

// Nothing a fuzzer makes up has a right checksum, so the row is also made with one.
void CheckMetadata(FuzzInput& in) {
  const std::string key = in.String();
  const std::string_view raw = in.Bytes();
  std::string again;
  const Result<QueueMetadata> read = DecodeMetadata(key, raw);
  if (read.ok()) {
    EncodeMetadata(key, *read, again);
    FUZZ_CHECK(again == raw);
  }
  QueueMetadata metadata;
  metadata.range_id.value = in.Int64();
  metadata.update_time.ns = in.Int64();
  const unsigned subqueues = in.Below(5);
  for (unsigned i = 0; i < subqueues; ++i) {
    SubqueueMetadata subqueue;
    subqueue.ack_level.pass = in.Int64();
    subqueue.ack_level.id.value = in.Int64();
    subqueue.approximate_count = in.Int64();
    metadata.subqueues.push_back(subqueue);
  }
  metadata.owner_state = in.String();
  EncodeMetadata(key, metadata, again);
  const Result<QueueMetadata> back = DecodeMetadata(key, again);
  FUZZ_CHECK(back.ok() == (metadata.range_id.value > 0));
  if (back.ok()) FUZZ_CHECK(*back == metadata);
  // One wrong byte anywhere, or another row's key, is noticed.
  const std::size_t at = static_cast<std::size_t>(in.Byte()) % again.size();
  again[at] = static_cast<char>(again[at] ^ (1 << in.Below(8)));
  FUZZ_CHECK(!DecodeMetadata(key, again).ok());
}

void CheckLog(std::string_view log) {
  std::size_t end = 0;
  const WalScan scan = ScanWal(
      log,
      [&](const WalRecord& record) {
        FUZZ_CHECK(record.begin >= end && record.begin < record.end && record.end <= log.size());
        end = record.end;
      },
      [&](const WalRecord& record) { FUZZ_CHECK(record.begin < log.size()); });
  FUZZ_CHECK(end <= scan.good_bytes && scan.good_bytes <= log.size());
}

}  // namespace
}  // namespace millrace::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::store;
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(4)) {
    case 0:
      CheckKeys(in.Rest());
      break;
    case 1:
      CheckRows(in.Rest());
      break;
    case 2:
      CheckMetadata(in);
      break;
    default:
      CheckLog(in.Rest());
      break;
  }
  return 0;
}
