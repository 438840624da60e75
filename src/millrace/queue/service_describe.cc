// QueueService: Describe and List.
#include <millrace/v1/queue.pb.h>

#include <algorithm>
#include <utility>

#include "millrace/backlog/owner_state.h"
#include "millrace/queue/open_call.h"
#include "millrace/queue/queue_service.h"

namespace millrace::queue {
namespace {

constexpr std::size_t kPageSizeDefault = 100;
constexpr std::size_t kPageSizeMax = 1'000;
// Queues looked at by one List call that filters by prefix.
constexpr std::size_t kListScanMax = 20'000;

void ToProto(const QueueCountsView& counts, v1::QueueCounts* out) {
  out->set_accepted(counts.accepted);
  out->set_done(counts.done);
  out->set_waiting(counts.waiting);
  out->set_leased(counts.leased);
  out->set_dead(counts.dead);
  out->set_dropped(counts.dropped);
}

void FillLoaded(const QueueView& view, v1::QueueInfo* out) {
  out->set_loaded(true);
  ToProto(view.counts, out->mutable_counts());
  if (view.oldest_age) queue::ToProto(*view.oldest_age, out->mutable_oldest_age());
  out->set_pollers(static_cast<std::int32_t>(view.pollers));
  v1::BacklogInfo* backlog = out->mutable_backlog();
  backlog->set_range_id(view.range_id.value);
  backlog->set_ack_level(view.backlog.ack_level.id.value);
  backlog->set_read_level(view.backlog.read_level.id.value);
  backlog->set_max_read_level(view.backlog.max_read_level.value);
  backlog->set_loaded_tasks(view.backlog.loaded_tasks);
}

void FillStored(const store::QueueMetadata& metadata, v1::QueueInfo* out) {
  out->set_loaded(false);
  const Result<backlog::OwnerState> state = backlog::DecodeOwnerState(metadata.owner_state);
  if (state.ok()) ToProto(CountsFrom(state->totals, 0), out->mutable_counts());
  v1::BacklogInfo* backlog = out->mutable_backlog();
  backlog->set_range_id(metadata.range_id.value);
  if (!metadata.subqueues.empty())
    backlog->set_ack_level(metadata.subqueues.front().ack_level.id.value);
}

void FillRowCounts(const RowCounts& rows, v1::RowCounts* out) {
  const QueueCountsView counters = CountsFrom(rows.totals, 0);
  out->set_task_rows(rows.task_rows);
  out->set_accepted(counters.accepted);
  out->set_done(counters.done);
  out->set_dead(counters.dead);
  out->set_dropped(counters.dropped);
  out->set_dead_rows(rows.dead_rows);
  out->set_dead_total(rows.dead_total);
}

}  // namespace

// Pages through the store, and asks loaded queues for their live numbers.
struct QueueService::Listing {
  CallPtr call;
  std::string prefix;
  std::size_t page_size = 0;
  std::size_t scanned = 0;
  v1::ListResponse response;
  std::size_t asked =
      0;  // Loaded queues that have not answered yet, plus one until all were asked.
};

void QueueService::Describe(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::DescribeRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  CheckQueue(request->queue(), errors);
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  const bool count_rows = request->count_rows();
  const store::PhysicalQueueKey key = QueueKey(request->queue());

  Op describe = [count_rows](const QueuePtr& queue, CallPtr open) {
    auto response = std::make_unique<v1::DescribeResponse>();
    response->mutable_queue()->set_name(queue->key().persistence_name);
    if (!count_rows) {
      FillLoaded(queue->Describe(), response->mutable_queue());
      return open->FinishOk(response->SerializeAsString());
    }
    queue->CountRows([queue, open = std::move(open),
                      response = std::move(response)](Result<RowCounts> rows) mutable {
      if (!rows.ok())
        return open->Finish(ToRpcStatus(QueueError::From(rows.status())), std::string());
      FillLoaded(queue->Describe(), response->mutable_queue());
      FillRowCounts(*rows, response->mutable_queue()->mutable_row_counts());
      open->FinishOk(response->SerializeAsString());
    });
  };
  if (count_rows || registry_.Find(key) != nullptr) {
    return WithExistingQueue(key, std::move(call), std::move(describe));
  }
  // Looking does not load a queue.
  store_.ReadMetadata(
      key, strand_, [key, call = std::move(call)](Result<store::QueueMetadata> metadata) {
        if (!metadata.ok())
          return call->Finish(ToRpcStatus(QueueLookupError(key, metadata.status())), std::string());
        v1::DescribeResponse response;
        response.mutable_queue()->set_name(key.persistence_name);
        FillStored(*metadata, response.mutable_queue());
        call->FinishOk(response.SerializeAsString());
      });
}

void QueueService::List(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<v1::ListRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  FieldErrors errors;
  auto listing = std::make_shared<Listing>();
  listing->page_size = CheckPageSize(request->page_size(), kPageSizeDefault, kPageSizeMax, errors);
  listing->prefix = request->name_prefix();
  const std::optional<std::string> token = DecodePageToken(request->page_token());
  if (!token) errors.Add("page_token", "not a token of this server");
  if (RejectIfBad(errors, call)) return metrics_.rejected.Increment();
  listing->call = std::move(call);
  listing->asked = 1;
  strand_.Post([this, listing, token = *token] { ListPage(listing, token); });
}

void QueueService::ListPage(const std::shared_ptr<Listing>& listing, std::string token) {
  const std::size_t room =
      listing->page_size - static_cast<std::size_t>(listing->response.queues_size());
  store_.ListQueues(
      std::move(token), room, strand_, [this, listing](Result<store::QueuePage> page) {
        if (!page.ok()) {
          return listing->call->Finish(ToRpcStatus(QueueError::From(page.status())), std::string());
        }
        for (const store::QueueEntry& entry : page->queues) {
          ++listing->scanned;
          const store::PhysicalQueueKey& key = entry.key;
          if (key.namespace_id != kDefaultNamespace || key.task_type != 0) continue;
          if (key.persistence_name.compare(0, listing->prefix.size(), listing->prefix) != 0)
            continue;
          v1::QueueInfo* info = listing->response.add_queues();
          info->set_name(key.persistence_name);
          FillStored(entry.metadata, info);
          const QueuePtr queue = registry_.Find(key);
          if (queue == nullptr) continue;
          ++listing->asked;
          queue->Run([this, listing, queue, info](const Status& ready) {
            std::optional<QueueView> view;
            if (ready.ok()) view = queue->Describe();
            strand_.Post([listing, info, view = std::move(view)] {
              if (view) FillLoaded(*view, info);
              FinishList(listing);
            });
          });
        }
        const bool full =
            static_cast<std::size_t>(listing->response.queues_size()) >= listing->page_size;
        if (!page->next_page_token.empty() && !full && listing->scanned < kListScanMax) {
          return ListPage(listing, page->next_page_token);
        }
        listing->response.set_next_page_token(EncodePageToken(page->next_page_token));
        FinishList(listing);
      });
}

void QueueService::FinishList(const std::shared_ptr<Listing>& listing) {
  if (--listing->asked == 0) listing->call->FinishOk(listing->response.SerializeAsString());
}

}  // namespace millrace::queue
