// QueueService: Complete, Fail, Extend, Release.
#include <millrace/v1/queue.pb.h>

#include <utility>

#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_service.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kErrorMessageBytesMax = 1'000;

// At most `max` bytes, cut between characters: the wire wants whole UTF-8.
std::string Truncate(const std::string& text, std::size_t max) {
  if (text.size() <= max) return text;
  std::size_t end = max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

template <typename Request>
std::vector<std::string> Tokens(const Request& request) {
  return {request.lease_tokens().begin(), request.lease_tokens().end()};
}

// Sends one result per item and counts what happened.
template <typename Response>
void Reply(rpc::ServerCall& call, const std::vector<QueueError>& results, Counter* succeeded,
           Counter& lost) {
  Response response;
  std::uint64_t ok_count = 0;
  std::uint64_t lost_count = 0;
  for (const QueueError& error : results) {
    ok_count += error.ok() ? 1 : 0;
    lost_count += error.reason == Reason::kLeaseLost ? 1 : 0;
    SetItemError(error, response.add_results());
  }
  if (succeeded != nullptr) succeeded->Add(ok_count);
  if (lost_count > 0) lost.Add(lost_count);
  call.FinishOk(response.SerializeAsString());
}

// Checks what Complete, Extend and Release have in common.
template <typename Request>
void CheckTokens(const Request& request, const QueueConfig& config, FieldErrors& errors) {
  CheckQueue(request.queue(), errors);
  CheckItemCount("lease_tokens", request.lease_tokens_size(), config.items_per_request_max, errors);
}

}  // namespace

void QueueService::Complete(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::CompleteRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckTokens(*request, config_, errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  WithQueue(QueueKey(request->queue()), std::move(call),
            [this, tokens = Tokens(*request)](const QueuePtr& queue, CallPtr open) {
              queue->leases().Complete(
                  tokens, [this, open = std::move(open)](const std::vector<QueueError>& results) {
                    Reply<v1::CompleteResponse>(*open, results, &metrics_.completed,
                                                metrics_.lease_lost);
                  });
            });
}

void QueueService::Fail(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::FailRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckQueue(request->queue(), errors);
  CheckItemCount("items", request->items_size(), config_.items_per_request_max, errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  std::vector<LeaseBook::FailItem> items;
  items.reserve(static_cast<std::size_t>(request->items_size()));
  for (const v1::FailItem& item : request->items()) {
    items.push_back({.token = item.lease_token(),
                     .error_message = Truncate(item.error_message(), kErrorMessageBytesMax),
                     .permanent = item.permanent()});
  }
  WithQueue(QueueKey(request->queue()), std::move(call),
            [this, items = std::move(items)](const QueuePtr& queue, CallPtr open) mutable {
              queue->leases().Fail(std::move(items), [this, open = std::move(open)](
                                                         const std::vector<QueueError>& results) {
                Reply<v1::FailResponse>(*open, results, &metrics_.failed, metrics_.lease_lost);
              });
            });
}

void QueueService::Extend(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::ExtendRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckTokens(*request, config_, errors);
  const Duration duration =
      CheckDuration("lease_duration", request->has_lease_duration(), request->lease_duration(),
                    config_.lease_duration_default, config_.lease_duration_min,
                    config_.lease_duration_max, errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  WithQueue(QueueKey(request->queue()), std::move(call),
            [this, tokens = Tokens(*request), duration](const QueuePtr& queue, CallPtr open) {
              Reply<v1::ExtendResponse>(*open, queue->leases().Extend(tokens, duration), nullptr,
                                        metrics_.lease_lost);
            });
}

void QueueService::Release(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::ReleaseRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckTokens(*request, config_, errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  WithQueue(QueueKey(request->queue()), std::move(call),
            [this, tokens = Tokens(*request)](const QueuePtr& queue, CallPtr open) {
              queue->leases().Release(tokens, [this, open = std::move(open)](
                                                  const std::vector<QueueError>& results) {
                Reply<v1::ReleaseResponse>(*open, results, &metrics_.released, metrics_.lease_lost);
              });
            });
}

}  // namespace millrace::queue
