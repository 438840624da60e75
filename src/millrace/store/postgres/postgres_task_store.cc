#include "millrace/store/postgres/postgres_task_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "millrace/store/key_encoding.h"
#include "millrace/store/postgres/schema.h"
#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

constexpr int kRetriesMax = 3;
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

// Error codes of PostgreSQL that are acted on.
bool IsCollision(std::string_view sqlstate) {
  return sqlstate == "40P01" || sqlstate == "40001";  // Deadlock, serialization failure.
}
bool IsLockTimeout(std::string_view sqlstate) { return sqlstate == "55P03"; }
bool IsDuplicateRow(std::string_view sqlstate) { return sqlstate == "23505"; }
// The server lacks something: space, memory, connections.
bool IsShortage(std::string_view sqlstate) { return sqlstate.starts_with("53"); }
// The server's time or will, not a row, is at fault: sending the writes one by one cures nothing.
bool IsOfTheServer(std::string_view sqlstate) {
  return sqlstate.empty() || IsShortage(sqlstate) || sqlstate.starts_with("57") ||
         sqlstate.starts_with("08") || sqlstate.starts_with("58") || sqlstate.starts_with("42") ||
         sqlstate.starts_with("25") || sqlstate.starts_with("28") || sqlstate.starts_with("3D") ||
         sqlstate.starts_with("3F");
}

// A limit that SQL can take, with room for one more.
std::int64_t SqlLimit(std::size_t limit) {
  return static_cast<std::int64_t>(std::min(limit, std::size_t{1} << 40));
}

Status Named(const Status& status, const PhysicalQueueKey& queue) {
  return {status.code(), std::string(status.message()) + " of queue " + queue.persistence_name +
                             " in namespace " + queue.namespace_id};
}

RowLayout::QueueRow QueueRowAt(const PgRows& rows, int row, bool with_state) {
  RowLayout::QueueRow out;
  out.range_id = rows.Int8(row, 0);
  out.data = rows.Bytes(row, 1);
  out.encoding = rows.Bytes(row, 2);
  if (with_state && !rows.IsNull(row, 3)) {
    out.state = OwnerStateIn(rows.Bytes(row, 3), out.data);
    out.state_range_id = rows.Int8(row, 4);
    out.state_update_time = rows.Int8(row, 5);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<PostgresTaskStore>> PostgresTaskStore::Open(const PostgresConfig& config,
                                                                   const RowLayout& layout,
                                                                   Metrics& metrics, Log& log) {
  Result<std::unique_ptr<PgPool>> pool = PgPool::Open(config, metrics, log);
  if (!pool.ok()) return pool.status();
  {
    Result<PgPool::Lease> connection = (*pool)->Take();
    if (!connection.ok()) return connection.status();
    MR_RETURN_IF_ERROR(CheckSchema(**connection));
  }
  return std::make_unique<PostgresTaskStore>(std::move(*pool), layout, log);
}

PostgresTaskStore::PostgresTaskStore(std::shared_ptr<PgPool> pool, const RowLayout& layout,
                                     Log& log)
    : pool_(std::move(pool)), layout_(layout), statements_(layout), log_(log) {}

std::vector<Status> PostgresTaskStore::Commit(std::span<const QueueWrite> writes) {
  std::vector<Status> results(writes.size());
  if (writes.empty()) return results;
  PgWriteGroup group(layout_);
  group.Load(writes, results);
  for (const PgWriteGroup::Round& round : group.rounds()) {
    CommitRound(group, round, writes, results);
  }
  return results;
}

void PostgresTaskStore::CommitRound(PgWriteGroup& group, const PgWriteGroup::Round& round,
                                    std::span<const QueueWrite> writes,
                                    std::vector<Status>& results) {
  CommitShape shape = round.shape;
  Sent sent = SendCuring(group, round, shape);
  if (sent.status.code() == StatusCode::kUnavailable && !IsOfTheServer(sent.sqlstate) &&
      round.writes.size() > 1) {
    for (const std::size_t index : round.writes) {
      PgWriteGroup::Round alone = group.Alone(index);
      alone.synced = round.synced;
      CommitRound(group, alone, writes, results);
    }
    return;
  }
  if (IsShortage(sent.sqlstate)) pool_->ReportBroken(sent.status);
  if (shape.updates_all) FindStored(round, writes, sent);
  for (std::size_t i = 0; i < round.writes.size(); ++i) {
    const std::size_t index = round.writes[i];
    if (!sent.status.ok()) {
      results[index] = sent.status;
    } else if (sent.stored_instead[i]) {
      const RangeId expected = writes[index].expected_range_id;
      results[index] =
          shape.skips_locked && *sent.stored_instead[i] == 0 && expected.value != 0
              ? Status(StatusCode::kUnavailable, "another session has locked the queue's row")
              : FencedStatus(expected, RangeId{*sent.stored_instead[i]});
    }
  }
}

void PostgresTaskStore::FindStored(const PgWriteGroup::Round& round,
                                   std::span<const QueueWrite> writes, Sent& sent) {
  std::vector<PhysicalQueueKey> queues;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < sent.stored_instead.size(); ++i) {
    if (!sent.stored_instead[i]) continue;
    queues.push_back(writes[round.writes[i]].queue);
    numbers.push_back(i);
  }
  if (queues.empty()) return;
  const std::vector<Result<RangeId>> found = ReadRangeIds(queues);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].ok()) sent.stored_instead[numbers[i]] = found[i].value().value;
  }
}

PostgresTaskStore::Sent PostgresTaskStore::SendCuring(PgWriteGroup& group,
                                                      const PgWriteGroup::Round& round,
                                                      CommitShape& shape) {
  Sent sent = Send(group, round, shape);
  for (int retry = 0; retry < kRetriesMax; ++retry) {
    if (sent.status.code() != StatusCode::kUnavailable) break;
    if (IsLockTimeout(sent.sqlstate) && !shape.skips_locked) {
      shape.skips_locked = true;
      shape.updates_all = false;
    } else if (IsDuplicateRow(sent.sqlstate) && !shape.replaces_tasks) {
      shape.replaces_tasks = true;
    } else if (!IsCollision(sent.sqlstate)) {
      break;
    }
    pool_->counters().retries.Increment();
    sent = Send(group, round, shape);
  }
  return sent;
}

PostgresTaskStore::Sent PostgresTaskStore::Send(PgWriteGroup& group,
                                                const PgWriteGroup::Round& round,
                                                const CommitShape& shape) {
  Result<PgPool::Lease> connection = pool_->Take();
  if (!connection.ok()) return {connection.status(), "", {}};
  const std::string& sync = (*connection)->synced_commit();
  const PgParams params = group.Parameters(round, shape, round.synced ? sync : "off");
  PgReply reply = (*connection)->Run(statements_.Commit(shape), params);
  Sent sent{std::move(reply.status), std::move(reply.sqlstate), {}};
  if (!sent.status.ok()) return sent;
  pool_->counters().commits.Increment();
  sent.stored_instead.resize(round.writes.size());
  for (int row = 0; row < reply.rows.size(); ++row) {
    sent.stored_instead[static_cast<std::size_t>(reply.rows.Int8(row, 0)) - 1] =
        reply.rows.Int8(row, 1);
  }
  return sent;
}

Result<PgRows> PostgresTaskStore::Ask(const PgStatement& statement, const PgParams& params) {
  Result<PgPool::Lease> connection = pool_->Take();
  if (!connection.ok()) return connection.status();
  PgReply reply = (*connection)->Run(statement, params);
  if (!reply.status.ok()) {
    return Status(StatusCode::kUnavailable, std::string(reply.status.message()));
  }
  return std::move(reply.rows);
}

Result<QueueMetadata> PostgresTaskStore::ReadMetadata(const PhysicalQueueKey& queue) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  const Result<RowLayout::Place> place = layout_.PlaceOfQueue(queue);
  if (!place.ok()) return place.status();
  PgParams params;
  params.Int8(place->range_hash).Bytes(place->task_queue_id);
  const Result<PgRows> rows = Ask(statements_.read_queue, params);
  if (!rows.ok()) return rows.status();
  if (rows->size() == 0) return Status(StatusCode::kNotFound, "no such queue");
  Result<QueueMetadata> metadata =
      layout_.DecodeQueue(*place, QueueRowAt(*rows, 0, layout_.keeps_state()));
  if (!metadata.ok()) return Named(metadata.status(), queue);
  return metadata;
}

std::vector<Result<RangeId>> PostgresTaskStore::ReadRangeIds(
    std::span<const PhysicalQueueKey> queues) {
  std::vector<Result<RangeId>> ids;
  ids.reserve(queues.size());
  std::vector<std::size_t> asked;  // By number in the statement.
  PgArray hashes(PgArray::Of::kInt8);
  PgArray place_ids(PgArray::Of::kBytes);
  for (const PhysicalQueueKey& queue : queues) {
    Status valid = ValidateQueueKey(queue);
    const Result<RowLayout::Place> place =
        valid.ok() ? layout_.PlaceOfQueue(queue) : Result<RowLayout::Place>(std::move(valid));
    if (place.ok()) {
      asked.push_back(ids.size());
      hashes.AddInt8(place->range_hash);
      place_ids.AddBytes(place->task_queue_id);
    }
    ids.emplace_back(place.ok() ? Status(StatusCode::kNotFound, "no such queue") : place.status());
  }
  if (asked.empty()) return ids;
  PgParams params;
  params.Array(std::move(hashes)).Array(std::move(place_ids));
  const Result<PgRows> rows = Ask(statements_.read_range_ids, params);
  if (!rows.ok()) {
    for (const std::size_t i : asked) ids[i] = rows.status();
    return ids;
  }
  for (int row = 0; row < rows->size(); ++row) {
    const RangeId found{rows->Int8(row, 1)};
    const std::size_t i = asked[static_cast<std::size_t>(rows->Int8(row, 0)) - 1];
    if (found.value > 0) {
      ids[i] = found;
    } else {
      ids[i] = Status(StatusCode::kCorruption, "damaged queue row");
    }
  }
  return ids;
}

Result<TaskPage> PostgresTaskStore::ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue,
                                              TaskLevel from, TaskLevel through, std::size_t limit,
                                              std::size_t max_bytes) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  TaskPage page;
  if (!layout_.has_pass()) {
    // All rows are of pass 0.
    if (from.pass > 0 || through.pass < 0) return page;
    from = {0, from.pass < 0 ? TaskId{kMin64} : from.id};
    through = {0, through.pass > 0 ? TaskId{kMax64} : through.id};
  }
  if (from > through) return page;
  const Result<RowLayout::Place> place = layout_.PlaceOfQueue(queue);
  if (!place.ok()) return place.status();
  const RowLayout::Place tasks = layout_.PlaceOfTasks(*place, subqueue);
  PgParams params;
  params.Int8(tasks.range_hash).Bytes(tasks.task_queue_id);
  params.Int8(from.pass).Int8(from.id.value).Int8(through.pass).Int8(through.id.value);
  params.Int8(SqlLimit(limit) + 1).Int8(SqlLimit(max_bytes));
  const Result<PgRows> rows = Ask(statements_.read_tasks, params);
  if (!rows.ok()) return rows.status();
  std::size_t bytes = 0;
  for (int i = 0; i < rows->size(); ++i) {
    TaskRow row;
    row.key = {subqueue, {rows->Int8(i, 0), TaskId{rows->Int8(i, 1)}}};
    if (page.rows.size() == limit) {
      page.more = true;
      break;
    }
    const Status decoded = layout_.DecodeTask(rows->Bytes(i, 2), rows->Bytes(i, 3), row);
    if (!decoded.ok()) return Named(decoded, queue);
    if (!page.rows.empty() && bytes + row.payload.size() > max_bytes) {
      page.more = true;
      break;
    }
    bytes += row.payload.size();
    page.rows.push_back(std::move(row));
  }
  // The server stops behind the bytes without saying so.
  page.more = page.more || (page.rows.size() < limit && bytes >= max_bytes);
  return page;
}

Result<std::optional<std::int64_t>> PostgresTaskStore::DeleteTasksThrough(
    const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel through, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  if (!layout_.has_pass()) {
    if (through.pass < 0) return std::optional<std::int64_t>(0);
    through = {0, through.pass > 0 ? TaskId{kMax64} : through.id};
  }
  const Result<RowLayout::Place> place = layout_.PlaceOfQueue(queue);
  if (!place.ok()) return place.status();
  const RowLayout::Place tasks = layout_.PlaceOfTasks(*place, subqueue);
  PgParams params;
  params.Int8(place->range_hash).Bytes(place->task_queue_id);
  params.Int8(tasks.range_hash).Bytes(tasks.task_queue_id);
  params.Int8(through.pass).Int8(through.id.value).Int8(SqlLimit(limit)).Bytes("off");
  const Result<PgRows> rows = Ask(statements_.delete_tasks, params);
  if (!rows.ok()) return rows.status();
  pool_->counters().commits.Increment();
  return std::optional(rows->touched());
}

Result<SidePage> PostgresTaskStore::ReadSideRows(const PhysicalQueueKey& queue,
                                                 std::string_view prefix, std::string_view after,
                                                 std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  const Result<RowLayout::Place> place = layout_.PlaceOfQueue(queue);
  if (!place.ok()) return place.status();
  const bool bounded = prefix.find_first_not_of('\xff') != std::string_view::npos;
  PgParams params;
  params.Int8(place->range_hash).Bytes(place->task_queue_id).Bytes(after).Bytes(prefix);
  params.Bytes(bounded ? AfterAllOf(prefix) : std::string()).Int8(SqlLimit(limit) + 1);
  const Result<PgRows> rows = Ask(statements_.read_side_rows, params);
  if (!rows.ok()) return rows.status();
  SidePage page;
  for (int i = 0; i < rows->size(); ++i) {
    const std::string_view key = rows->Bytes(i, 0);
    // Without an end in the statement, what lies above the prefix ends here.
    if (!key.starts_with(prefix)) break;
    if (page.rows.size() == limit) {
      page.more = true;
      break;
    }
    page.rows.push_back({std::string(key), std::string(rows->Bytes(i, 1))});
  }
  return page;
}

Result<QueuePage> PostgresTaskStore::ListQueues(std::string_view page_token, std::size_t limit) {
  MR_RETURN_IF_ERROR(ValidateLimit(limit));
  const Result<std::string> after_key = DecodePageToken(page_token);
  if (!after_key.ok()) return after_key.status();
  RowLayout::Place after{layout_.first_hash(), ""};
  if (!after_key->empty()) {
    std::string_view bytes = *after_key;
    PhysicalQueueKey queue;
    Result<RowLayout::Place> place =
        TakeQueueKey(bytes, queue)
            ? layout_.PlaceOfQueue(queue)
            : Status(StatusCode::kInvalidArgument, "page token was not made by this store");
    if (!place.ok()) return place.status();
    after = std::move(*place);
  }
  QueuePage page;
  std::optional<PhysicalQueueKey> last;  // The last queue looked at: a token can name it.
  // Rows that are left out leave room in the page.
  for (;;) {
    const std::size_t room = limit - page.queues.size();
    PgParams params;
    params.Int8(after.range_hash).Bytes(after.task_queue_id);
    params.Bytes(layout_.first_id()).Bytes(layout_.end_id());
    params.Int8(layout_.last_hash()).Int8(SqlLimit(room) + 1);
    const Result<PgRows> rows = Ask(statements_.list_queues, params);
    if (!rows.ok()) return rows.status();
    const auto count = static_cast<std::size_t>(rows->size());
    for (std::size_t i = 0; i < std::min(count, room); ++i) {
      const int row = static_cast<int>(i);
      after = {rows->Int8(row, 6), std::string(rows->Bytes(row, 7))};
      std::optional<PhysicalQueueKey> queue = layout_.QueueAt(after.task_queue_id);
      if (!queue) {
        log_.Write(LogLevel::kError, "store", "row left out of a list: its id is no queue's", {});
        continue;
      }
      last = queue;
      Result<QueueMetadata> metadata =
          layout_.DecodeQueue(after, QueueRowAt(*rows, row, layout_.keeps_state()));
      if (!metadata.ok()) {
        log_.Write(LogLevel::kError, "store", "queue left out of a list: its metadata is damaged",
                   {{"queue", queue->persistence_name}});
        continue;
      }
      page.queues.push_back({std::move(*queue), std::move(*metadata)});
    }
    if (count <= room) return page;
    if (page.queues.size() == limit) break;
  }
  page.next_page_token = EncodePageToken(EncodeQueueKey(*last));
  return page;
}

Status PostgresTaskStore::DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(queue));
  const Result<RowLayout::Place> place = layout_.PlaceOfQueue(queue);
  if (!place.ok()) return place.status();
  PgArray hashes(PgArray::Of::kInt8);
  PgArray firsts(PgArray::Of::kBytes);
  PgArray ends(PgArray::Of::kBytes);
  if (const std::string end = layout_.EndOfAllTasks(*place); !end.empty()) {
    hashes.AddInt8(place->range_hash);
    firsts.AddBytes(place->task_queue_id);
    ends.AddBytes(end);
  } else {
    const Result<QueueMetadata> metadata = ReadMetadata(queue);
    if (!metadata.ok()) return metadata.status();
    for (std::size_t i = 0; i < std::max<std::size_t>(1, metadata->subqueues.size()); ++i) {
      const RowLayout::Place tasks = layout_.PlaceOfTasks(*place, static_cast<Subqueue>(i));
      hashes.AddInt8(tasks.range_hash);
      firsts.AddBytes(tasks.task_queue_id);
      ends.AddBytes(tasks.task_queue_id + '\0');
    }
  }
  PgParams params;
  params.Int8(place->range_hash).Bytes(place->task_queue_id).Int8(expected_range_id.value);
  params.Array(std::move(hashes)).Array(std::move(firsts)).Array(std::move(ends));

  Result<PgPool::Lease> connection = pool_->Take();
  if (!connection.ok()) return connection.status();
  PgReply reply = (*connection)->RunLong(statements_.delete_queue, params);
  if (!reply.status.ok()) return reply.status;
  if (reply.rows.size() == 0) return {StatusCode::kNotFound, "no such queue"};
  const RangeId stored{reply.rows.Int8(0, 0)};
  if (stored != expected_range_id) return FencedStatus(expected_range_id, stored);
  pool_->counters().commits.Increment();
  return {};
}

}  // namespace millrace::store
