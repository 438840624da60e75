// Requests to every method of the queue service: arbitrary bytes, and messages with arbitrary
// fields and tokens that were really handed out. Whatever comes, each call is answered once and the
// counts of every queue add up.

#include <millrace/v1/queue.pb.h>

#include "fuzz_input.h"
#include "queue_host.h"

namespace millrace::fuzz {
namespace {

constexpr const char* kMethods[] = {"Enqueue", "Lease", "Complete", "Fail", "Extend",
                                    "Release", "Peek",  "Describe", "List"};
constexpr const char* kQueues[] = {"a", "b/c", "never.used"};

class Session {
 public:
  explicit Session(FuzzInput& in) : in_(in), host_(durable_, Config()) {}

  void Run() {
    for (int step = 0; step < 40 && !in_.empty(); ++step) Step();
    // Answers what still waits.
    for (const auto& call : waiting_) {
      if (!call->done && call->on_cancel) std::exchange(call->on_cancel, nullptr)();
    }
    host_.Advance(std::chrono::seconds(61));
    for (const char* queue : kQueues) CheckCounts(queue);
    host_.Stop();
  }

 private:
  static queue::QueueConfig Config() {
    queue::QueueConfig config;
    config.payload_bytes_max = 200;
    config.leases_max = 8;
    config.pollers_max = 3;
    config.backlog.range_size = 5;
    config.backlog.write_batch_max = 4;
    config.backlog.page_size = 3;
    return config;
  }

  void Step() {
    switch (in_.Below(12)) {
      case 0: {
        const std::string method = kMethods[in_.Below(std::size(kMethods))];
        Keep(host_.Call(method, in_.String(), Deadline()));
        return;
      }
      case 1:
        host_.Advance(Duration(in_.Int64() & ((std::int64_t{1} << 37) - 1)));
        return;
      case 2:
        host_.executor().manual_clock().JumpWall(
            std::chrono::seconds(static_cast<std::int8_t>(in_.Byte())));
        return;
      case 3:
        if (!waiting_.empty()) {
          const auto call = waiting_[in_.Below(
              static_cast<unsigned>(std::min<std::size_t>(waiting_.size(), 256)))];
          if (!call->done && call->on_cancel) std::exchange(call->on_cancel, nullptr)();
          host_.executor().RunUntilIdle();
        }
        return;
      case 4:
      case 5:
        Enqueue();
        return;
      case 6:
      case 7:
        Lease();
        return;
      case 8:
      case 9:
        Settle();
        return;
      case 10:
        Fail();
        return;
      default:
        Look();
        return;
    }
  }

  Instant Deadline() {
    if (in_.Bool()) return Instant::Max();
    return host_.executor().clock().Now() +
           Duration(static_cast<std::int8_t>(in_.Byte()) * std::int64_t{100'000'000});
  }
  std::string Queue() { return in_.Below(5) == 0 ? in_.String() : kQueues[in_.Below(2)]; }
  std::string Token() {
    return tokens_.empty() || in_.Below(5) == 0 ? in_.String()
                                                : tokens_[in_.Below(static_cast<unsigned>(
                                                      std::min<std::size_t>(tokens_.size(), 256)))];
  }
  void FillDuration(google::protobuf::Duration* duration) {
    duration->set_seconds(in_.Int64());
    duration->set_nanos(static_cast<std::int32_t>(in_.Int64()));
  }
  // Proper ones, mostly: what is refused at the door leads nowhere.
  void FillShort(google::protobuf::Duration* duration) {
    if (in_.Below(6) == 0) return FillDuration(duration);
    duration->set_seconds(1 + in_.Below(40));
  }

  std::shared_ptr<Ended> Call(const char* method, const google::protobuf::Message& message) {
    auto ended = host_.Call(method, message.SerializeAsString(), Deadline());
    Keep(ended);
    return ended;
  }
  void Keep(const std::shared_ptr<Ended>& ended) {
    if (!ended->done) waiting_.push_back(ended);
  }

  void Enqueue() {
    v1::EnqueueRequest request;
    request.set_queue(Queue());
    const unsigned tasks = in_.Below(6);
    for (unsigned i = 0; i < tasks; ++i) {
      v1::NewTask& task = *request.add_tasks();
      task.set_payload(in_.String());
      if (in_.Below(4) == 0) (*task.mutable_headers())[in_.String()] = in_.String();
      if (in_.Bool())
        task.set_max_attempts(in_.Below(5) == 0 ? static_cast<std::int32_t>(in_.Int64())
                                                : 1 + static_cast<std::int32_t>(in_.Below(3)));
      if (in_.Below(3) == 0) FillShort(task.mutable_time_to_live());
    }
    const auto ended = Call("Enqueue", request);
    if (!ended->done || ended->status.code != rpc::Code::kOk) return;
    v1::EnqueueResponse response;
    FUZZ_CHECK(response.ParseFromString(ended->response));
    FUZZ_CHECK(response.results_size() == request.tasks_size());
  }

  void Lease() {
    v1::LeaseRequest request;
    request.set_queue(Queue());
    request.set_max_tasks(in_.Below(8) == 0 ? static_cast<std::int32_t>(in_.Int64())
                                            : static_cast<std::int32_t>(in_.Below(5)));
    if (in_.Bool()) FillShort(request.mutable_lease_duration());
    if (in_.Bool()) request.mutable_wait_time();
    if (in_.Below(4) == 0) FillDuration(request.mutable_wait_time());
    if (in_.Below(4) == 0) request.set_worker_id(in_.String());
    const auto ended = Call("Lease", request);
    if (!ended->done || ended->status.code != rpc::Code::kOk) return;
    v1::LeaseResponse response;
    FUZZ_CHECK(response.ParseFromString(ended->response));
    for (const v1::LeasedTask& task : response.tasks()) {
      FUZZ_CHECK(task.attempt() >= 1);
      FUZZ_CHECK(task.max_attempts() == 0 || task.attempt() <= task.max_attempts());
      tokens_.push_back(task.lease_token());
    }
  }

  void Settle() {
    const unsigned kind = in_.Below(3);
    if (kind == 0) {
      v1::CompleteRequest request;
      request.set_queue(Queue());
      for (unsigned i = in_.Below(4); i > 0; --i) request.add_lease_tokens(Token());
      Call("Complete", request);
    } else if (kind == 1) {
      v1::ExtendRequest request;
      request.set_queue(Queue());
      for (unsigned i = in_.Below(4); i > 0; --i) request.add_lease_tokens(Token());
      if (in_.Bool()) FillShort(request.mutable_lease_duration());
      Call("Extend", request);
    } else {
      v1::ReleaseRequest request;
      request.set_queue(Queue());
      for (unsigned i = in_.Below(4); i > 0; --i) request.add_lease_tokens(Token());
      Call("Release", request);
    }
  }

  void Fail() {
    v1::FailRequest request;
    request.set_queue(Queue());
    for (unsigned i = in_.Below(4); i > 0; --i) {
      v1::FailItem& item = *request.add_items();
      item.set_lease_token(Token());
      item.set_error_message(in_.String());
      item.set_permanent(in_.Below(4) == 0);
    }
    Call("Fail", request);
  }

  void Look() {
    const unsigned kind = in_.Below(3);
    if (kind == 0) {
      v1::PeekRequest request;
      request.set_queue(Queue());
      request.set_state(static_cast<v1::TaskState>(in_.Below(5)));
      request.set_page_size(in_.Below(4) == 0 ? static_cast<std::int32_t>(in_.Int64()) : 2);
      request.set_page_token(in_.Bool() ? page_token_ : in_.String());
      request.set_view(static_cast<v1::TaskView>(in_.Below(4)));
      const auto ended = Call("Peek", request);
      v1::PeekResponse response;
      if (ended->done && ended->status.code == rpc::Code::kOk) {
        FUZZ_CHECK(response.ParseFromString(ended->response));
        page_token_ = response.next_page_token();
      }
    } else if (kind == 1) {
      v1::ListRequest request;
      request.set_page_size(in_.Below(4) == 0 ? static_cast<std::int32_t>(in_.Int64()) : 1);
      request.set_page_token(in_.Bool() ? page_token_ : in_.String());
      request.set_name_prefix(in_.String());
      const auto ended = Call("List", request);
      v1::ListResponse response;
      if (ended->done && ended->status.code == rpc::Code::kOk) {
        FUZZ_CHECK(response.ParseFromString(ended->response));
        page_token_ = response.next_page_token();
      }
    } else {
      CheckCounts(Queue());
    }
  }

  void CheckCounts(const std::string& queue) {
    v1::DescribeRequest request;
    request.set_queue(queue);
    request.set_count_rows(true);
    const auto ended = host_.Call("Describe", request.SerializeAsString());
    host_.Advance(std::chrono::seconds(1));
    FUZZ_CHECK(ended->done);
    if (ended->status.code != rpc::Code::kOk) return;
    v1::DescribeResponse response;
    FUZZ_CHECK(response.ParseFromString(ended->response));
    const v1::QueueCounts& counts = response.queue().counts();
    FUZZ_CHECK(counts.waiting() >= 0 && counts.leased() >= 0 && counts.dead() >= 0);
    FUZZ_CHECK(counts.accepted() == counts.done() + counts.waiting() + counts.leased() +
                                        counts.dead() + counts.dropped());
    const v1::RowCounts& rows = response.queue().row_counts();
    FUZZ_CHECK(rows.accepted() == rows.done() + rows.task_rows() + rows.dead() + rows.dropped());
    FUZZ_CHECK(rows.dead_rows() == rows.dead_total());
  }

  FuzzInput& in_;
  store::MemoryTaskStore durable_;
  QueueHost host_;
  std::vector<std::shared_ptr<Ended>> waiting_;
  std::vector<std::string> tokens_;
  std::string page_token_;
};

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::FuzzInput in(data, size);
  millrace::fuzz::Session(in).Run();
  return 0;
}
