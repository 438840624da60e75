// What the queue and the backlog read back from the bytes they gave the store, and lease tokens.

#include <algorithm>

#include "fuzz_input.h"
#include "millrace/backlog/owner_state.h"
#include "millrace/queue/lease_journal.h"
#include "millrace/queue/lease_token.h"
#include "millrace/queue/task_record.h"

namespace millrace::queue {
namespace {

using fuzz::FuzzInput;

void CheckTaskRecord(std::string_view bytes) {
  const Result<TaskRecord> record = DecodeTaskRecord(bytes);
  if (record.ok()) FUZZ_CHECK(EncodeTaskRecord(*record) == bytes);
}

void CheckDeadTask(std::string_view bytes) {
  const Result<DeadTask> dead = DecodeDeadTask(bytes);
  if (dead.ok()) FUZZ_CHECK(EncodeDeadTask(*dead) == bytes);
}

void CheckLeaseChunk(std::string_view bytes) {
  const Result<std::vector<LeaseRecord>> records = DecodeLeaseChunk(bytes);
  if (records.ok()) FUZZ_CHECK(EncodeLeaseChunk(*records) == bytes);
  const std::uint64_t chunk = ParseLeaseChunkKey(bytes);
  if (chunk != 0) FUZZ_CHECK(LeaseChunkKey(chunk) == bytes);
}

void CheckOwnerState(std::string_view bytes) {
  const Result<backlog::OwnerState> state = backlog::DecodeOwnerState(bytes);
  if (!state.ok() || bytes.empty()) return;
  // Fewer totals stand for zeros.
  const Result<backlog::OwnerState> again =
      backlog::DecodeOwnerState(backlog::EncodeOwnerState(*state));
  FUZZ_CHECK(again.ok() && *again == *state);
}

void CheckToken(std::string_view bytes) {
  const std::optional<LeaseToken> token = DecodeLeaseToken(bytes);
  if (token) FUZZ_CHECK(EncodeLeaseToken(*token) == bytes);
}

void CheckEncoders(FuzzInput& in) {
  LeaseRecord lease;
  // What a lease can have been.
  const auto above_zero = [&in] { return (in.Int64() & (INT64_MAX >> 2)) | 1; };
  lease.task.subqueue = static_cast<store::Subqueue>(in.Int64() & INT32_MAX);
  lease.task.level.pass = in.Int64();
  lease.task.level.id.value = above_zero();
  lease.epoch.value = above_zero();
  lease.counter = static_cast<std::uint64_t>(in.Int64());
  lease.deadline.ns = above_zero();
  lease.duration = Duration(above_zero());
  lease.worker_id = in.String();
  const std::vector<LeaseRecord> records(in.Below(3), lease);
  const Result<std::vector<LeaseRecord>> read = DecodeLeaseChunk(EncodeLeaseChunk(records));
  FUZZ_CHECK(read.ok() && *read == records);

  TaskRecord record;
  record.first_id.value = in.Int64();
  record.attempts_ended =
      std::min(static_cast<std::int32_t>(in.Int64() & INT32_MAX), kAttemptsEndedMax);
  record.max_attempts = static_cast<std::int32_t>(in.Int64() & INT32_MAX);
  record.enqueue_time.ns = in.Int64();
  const unsigned headers = in.Below(4);
  for (unsigned i = 0; i < headers; ++i) {
    const std::string_view name = in.Bytes();
    record.headers.emplace_back(name, in.Bytes());
  }
  record.payload = in.Bytes();
  const std::string bytes = EncodeTaskRecord(record);
  const Result<TaskRecord> back = DecodeTaskRecord(bytes);
  FUZZ_CHECK(back.ok() && back->first_id == record.first_id &&
             back->attempts_ended == record.attempts_ended &&
             back->max_attempts == record.max_attempts &&
             back->enqueue_time == record.enqueue_time && back->headers == record.headers &&
             back->payload == record.payload);
  DeadTask dead{.death_time = WallTime{in.Int64()}, .error_message = in.Bytes(), .record = bytes};
  const std::string dead_bytes = EncodeDeadTask(dead);
  const Result<DeadTask> dead_back = DecodeDeadTask(dead_bytes);
  FUZZ_CHECK(dead_back.ok() && dead_back->death_time == dead.death_time &&
             dead_back->error_message == dead.error_message && dead_back->record == bytes);

  backlog::OwnerState state;
  state.nonce = static_cast<std::uint64_t>(in.Int64());
  state.write_seq = static_cast<std::uint64_t>(in.Int64());
  state.range_size = (in.Int64() & INT64_MAX) | 1;
  for (std::int64_t& total : state.totals) total = in.Int64();
  const Result<backlog::OwnerState> state_back =
      backlog::DecodeOwnerState(backlog::EncodeOwnerState(state));
  FUZZ_CHECK(state_back.ok() && *state_back == state);
}

}  // namespace
}  // namespace millrace::queue

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::queue;
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(6)) {
    case 0:
      CheckTaskRecord(in.Rest());
      break;
    case 1:
      CheckDeadTask(in.Rest());
      break;
    case 2:
      CheckLeaseChunk(in.Rest());
      break;
    case 3:
      CheckOwnerState(in.Rest());
      break;
    case 4:
      CheckToken(in.Rest());
      break;
    default:
      CheckEncoders(in);
      break;
  }
  return 0;
}
