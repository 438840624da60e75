// A queue whose stored rows hold arbitrary bytes, as a damaged or a newer data directory might: it
// is loaded and used, and other queues are not touched. Bytes that do not parse fault their queue;
// numbers that nobody would write do no harm.

#include <millrace/v1/queue.pb.h>

#include "fuzz_input.h"
#include "millrace/backlog/owner_state.h"
#include "millrace/queue/lease_journal.h"
#include "millrace/queue/lease_token.h"
#include "millrace/queue/queue_name.h"
#include "millrace/queue/task_record.h"
#include "queue_host.h"

namespace millrace::fuzz {
namespace {

constexpr char kDamaged[] = "damaged";

std::string OwnerState(FuzzInput& in) {
  if (in.Below(3) == 0) return in.String();
  backlog::OwnerState state;
  state.nonce = static_cast<std::uint64_t>(in.Int64());
  state.write_seq = static_cast<std::uint64_t>(in.Int64());
  state.range_size = 1 + in.Byte();
  for (std::int64_t& total : state.totals) total = in.Byte();
  return backlog::EncodeOwnerState(state);
}

std::string TaskBytes(FuzzInput& in) {
  if (in.Below(3) == 0) return in.String();
  queue::TaskRecord record;
  record.first_id.value = in.Bool() ? 0 : in.Int64();
  record.attempts_ended = static_cast<std::int32_t>(in.Int64() & INT32_MAX);
  record.max_attempts = static_cast<std::int32_t>(in.Int64() & INT32_MAX);
  record.enqueue_time.ns = in.Int64();
  record.payload = in.Bytes();
  return queue::EncodeTaskRecord(record);
}

std::int64_t SmallId(FuzzInput& in) { return in.Below(4) == 0 ? in.Int64() : 1 + in.Below(12); }

std::string Chunk(FuzzInput& in) {
  if (in.Below(4) == 0) return in.String();
  std::vector<queue::LeaseRecord> records;
  for (unsigned i = in.Below(4); i > 0; --i) {
    queue::LeaseRecord record;
    record.task.subqueue = in.Below(4) == 0 ? static_cast<store::Subqueue>(in.Int64()) : 0;
    record.task.level.pass = in.Below(4) == 0 ? in.Int64() : 0;
    record.task.level.id.value = SmallId(in);
    record.epoch.value = in.Int64();
    record.counter = static_cast<std::uint64_t>(in.Int64());
    record.deadline.ns =
        in.Bool() ? in.Int64() : 1'700'000'000'000'000'000 + in.Int64() / 1'000'000;
    record.duration = Duration(in.Int64());
    record.worker_id = in.String();
    records.push_back(std::move(record));
  }
  return queue::EncodeLeaseChunk(records);
}

store::QueueWrite StoredRows(FuzzInput& in) {
  store::QueueWrite write;
  write.queue = queue::QueueKey(kDamaged);
  store::QueueMetadata metadata;
  metadata.range_id.value = 1 + in.Byte();
  metadata.update_time.ns = in.Int64();
  for (unsigned i = in.Below(4); i > 0; --i) {
    store::SubqueueMetadata subqueue;
    subqueue.ack_level.pass = in.Bool() ? 0 : in.Int64();
    subqueue.ack_level.id.value = SmallId(in);
    subqueue.approximate_count = in.Byte();
    metadata.subqueues.push_back(subqueue);
  }
  metadata.owner_state = OwnerState(in);
  write.metadata = metadata;
  for (unsigned i = in.Below(6); i > 0; --i) {
    store::TaskRow row;
    row.key.level.id.value = SmallId(in);
    row.key.level.pass = in.Below(4) == 0 ? in.Int64() : 0;
    row.create_time.ns = in.Int64();
    if (in.Bool()) row.expiry_time.ns = in.Int64();
    row.payload = TaskBytes(in);
    write.creates.push_back(std::move(row));
  }
  for (unsigned i = in.Below(4); i > 0; --i) {
    switch (in.Below(4)) {
      case 0:
        write.side_puts.push_back({"Q", in.String()});
        break;
      case 1:
        write.side_puts.push_back(
            {queue::LeaseChunkKey(static_cast<std::uint64_t>(in.Bool() ? in.Byte() : in.Int64())),
             Chunk(in)});
        break;
      case 2:
        write.side_puts.push_back({"D" + in.String(), in.String()});
        break;
      default:
        write.side_puts.push_back({"x" + in.String(), in.String()});
        break;
    }
  }
  return write;
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  using namespace millrace::fuzz;
  FuzzInput in(data, size);
  store::MemoryTaskStore durable;
  const store::QueueWrite write = StoredRows(in);
  if (!durable.Commit(std::vector{write})[0].ok()) return 0;

  QueueHost host(durable);
  v1::EnqueueRequest enqueue;
  enqueue.set_queue(kDamaged);
  enqueue.add_tasks()->set_payload("new");
  v1::LeaseRequest lease;
  lease.set_queue(kDamaged);
  lease.set_max_tasks(10);
  lease.mutable_wait_time()->set_seconds(1);
  v1::DescribeRequest describe;
  describe.set_queue(kDamaged);
  describe.set_count_rows(true);
  v1::PeekRequest peek;
  peek.set_queue(kDamaged);
  for (int round = 0; round < 2; ++round) {
    host.Call("Peek", peek.SerializeAsString());
    host.Call("Describe", describe.SerializeAsString());
    host.Call("Enqueue", enqueue.SerializeAsString());
    const auto leased = host.Call("Lease", lease.SerializeAsString());
    host.Advance(std::chrono::seconds(3));
    v1::LeaseResponse response;
    FUZZ_CHECK(response.ParseFromString(leased->response));
    v1::CompleteRequest complete;
    complete.set_queue(kDamaged);
    for (const v1::LeasedTask& task : response.tasks()) {
      complete.add_lease_tokens(task.lease_token());
    }
    if (complete.lease_tokens_size() > 0) host.Call("Complete", complete.SerializeAsString());
    peek.set_state(v1::TASK_STATE_DEAD);
    host.Call("Peek", peek.SerializeAsString());
    host.Advance(std::chrono::minutes(1));
  }

  // Another queue of the same server knows nothing of it.
  enqueue.set_queue("healthy");
  const auto enqueued = host.Call("Enqueue", enqueue.SerializeAsString());
  host.Advance(std::chrono::seconds(10));
  FUZZ_CHECK(enqueued->done && enqueued->status.code == rpc::Code::kOk);
  lease.set_queue("healthy");
  const auto leased = host.Call("Lease", lease.SerializeAsString());
  host.Advance(std::chrono::seconds(10));
  v1::LeaseResponse response;
  FUZZ_CHECK(leased->done && response.ParseFromString(leased->response));
  FUZZ_CHECK(response.tasks_size() == 1);
  host.Call("List", v1::ListRequest().SerializeAsString());
  host.Advance(std::chrono::seconds(10));
  host.Stop();
  return 0;
}
