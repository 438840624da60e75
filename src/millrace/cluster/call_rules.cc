#include "millrace/cluster/call_rules.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <millrace/v1/queue.pb.h>

#include <algorithm>
#include <map>
#include <utility>

#include "millrace/queue/errors.h"
#include "millrace/queue/queue_service.h"
#include "millrace/queue/request_checks.h"

namespace millrace::cluster {

std::optional<CallRules> RulesOf(std::string_view method) {
  static const std::string kPrefix = "/" + std::string(queue::kQueueServiceName) + "/";
  static const std::map<std::string_view, CallRules> kRules = {
      {"Enqueue", {.judged_by_store = true}},
      {"Lease", {.leases = true}},
      {"Complete", {}},
      {"Fail", {}},
      {"Extend", {.repeatable = true}},
      {"Release", {}},
      {"Peek", {.repeatable = true}},
      {"Describe", {.repeatable = true}},
      {"List", {.kind = CallKind::kAllQueues, .repeatable = true}},
  };
  if (!method.starts_with(kPrefix)) return std::nullopt;
  const auto it = kRules.find(method.substr(kPrefix.size()));
  if (it == kRules.end()) return std::nullopt;
  return it->second;
}

std::string_view QueueOf(std::string_view request) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(request.data()),
                                            static_cast<int>(request.size()));
  // In all requests that name a queue its field is the first. Of several the last one counts.
  constexpr std::uint32_t kQueueTag =
      WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  std::string_view name;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag != kQueueTag) {
      if (!WireFormatLite::SkipField(&in, tag)) return {};
      continue;
    }
    std::uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return {};
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    if (size > request.size() - begin || !in.Skip(static_cast<int>(size))) return {};
    name = request.substr(begin, size);
  }
  return in.ConsumedEntireMessage() ? name : std::string_view();
}

std::optional<Duration> WaitOf(std::string_view lease_request) {
  v1::LeaseRequest request;
  if (!request.ParseFromArray(lease_request.data(), static_cast<int>(lease_request.size())) ||
      !request.has_wait_time()) {
    return std::nullopt;
  }
  // Out of any bounds it will be refused, whatever comes out here.
  return std::chrono::seconds(std::clamp<std::int64_t>(request.wait_time().seconds(), 0, 86'400)) +
         Duration(request.wait_time().nanos());
}

std::string WithWait(std::string_view lease_request, Duration wait) {
  v1::LeaseRequest request;
  if (!request.ParseFromArray(lease_request.data(), static_cast<int>(lease_request.size()))) {
    return std::string(lease_request);
  }
  queue::ToProto(std::max(wait, Duration::zero()), request.mutable_wait_time());
  return request.SerializeAsString();
}

bool IsTurnedAway(const rpc::RpcStatus& status) {
  if (status.code != rpc::Code::kUnavailable) return false;
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  if (!rich.ParseFromString(status.details)) return false;
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&info)) return info.reason() == queue::ReasonName(queue::Reason::kDraining);
  }
  return false;
}

rpc::RpcStatus TurnedAway(std::string message) {
  return queue::ToRpcStatus(
      {rpc::Code::kUnavailable, queue::Reason::kDraining, std::move(message)});
}

rpc::RpcStatus OutcomeUnknown(std::string message) {
  return queue::ToRpcStatus(
      {rpc::Code::kUnavailable, queue::Reason::kOutcomeUnknown, std::move(message)});
}

std::string MergeLists(std::string own, std::string_view other) {
  v1::ListResponse mine;
  v1::ListResponse theirs;
  if (!mine.ParseFromString(own) ||
      !theirs.ParseFromArray(other.data(), static_cast<int>(other.size()))) {
    return own;
  }
  std::map<std::string, v1::QueueInfo*> loaded;
  for (v1::QueueInfo& queue : *theirs.mutable_queues()) {
    if (queue.loaded()) loaded.emplace(queue.name(), &queue);
  }
  for (v1::QueueInfo& queue : *mine.mutable_queues()) {
    const auto it = loaded.find(queue.name());
    // Of two that have it in memory the one with the higher range id is the owner.
    if (it == loaded.end() ||
        (queue.loaded() && queue.backlog().range_id() >= it->second->backlog().range_id())) {
      continue;
    }
    queue.Swap(it->second);
  }
  return mine.SerializeAsString();
}

}  // namespace millrace::cluster
