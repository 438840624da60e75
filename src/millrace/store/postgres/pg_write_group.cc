#include "millrace/store/postgres/pg_write_group.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

using Of = PgArray::Of;

struct TaskArrays {
  PgArray queue{Of::kInt4};
  PgArray hash{Of::kInt8};
  PgArray id{Of::kBytes};
  PgArray pass{Of::kInt8};
  PgArray task{Of::kInt8};

  void Add(std::int32_t number, const RowLayout::Place& place, TaskLevel level) {
    queue.AddInt4(number);
    hash.AddInt8(place.range_hash);
    id.AddBytes(place.task_queue_id);
    pass.AddInt8(level.pass);
    task.AddInt8(level.id.value);
  }
  void MoveTo(PgParams& params) {
    params.Array(std::move(queue)).Array(std::move(hash)).Array(std::move(id));
    params.Array(std::move(pass)).Array(std::move(task));
  }
};

struct SideArrays {
  PgArray queue{Of::kInt4};
  PgArray hash{Of::kInt8};
  PgArray id{Of::kBytes};
  PgArray key{Of::kBytes};

  void Add(std::int32_t number, const RowLayout::Place& place, std::string_view side_key) {
    queue.AddInt4(number);
    hash.AddInt8(place.range_hash);
    id.AddBytes(place.task_queue_id);
    key.AddBytes(side_key);
  }
  void MoveTo(PgParams& params) {
    params.Array(std::move(queue)).Array(std::move(hash)).Array(std::move(id));
    params.Array(std::move(key));
  }
};

}  // namespace

void PgWriteGroup::Load(std::span<const QueueWrite> writes, std::vector<Status>& results) {
  writes_ = writes;
  items_.clear();
  items_.resize(writes.size());
  rounds_.clear();
  std::vector<std::size_t> valid;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    results[i] = LoadOne(writes[i], items_[i]);
    if (results[i].ok()) valid.push_back(i);
  }
  const auto key = [this](std::size_t i) {
    return std::tie(items_[i].place.range_hash, items_[i].place.task_queue_id);
  };
  std::stable_sort(valid.begin(), valid.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::size_t round = 0;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    round = i > 0 && key(valid[i]) == key(valid[i - 1]) ? round + 1 : 0;
    if (round == rounds_.size()) rounds_.emplace_back();
    const QueueWrite& write = writes[valid[i]];
    rounds_[round].writes.push_back(valid[i]);
    rounds_[round].synced = rounds_[round].synced || write.durability == Durability::kSynced;
    rounds_[round].makes_queues = rounds_[round].makes_queues || write.expected_range_id.value == 0;
  }
}

Status PgWriteGroup::LoadOne(const QueueWrite& write, Item& item) {
  MR_RETURN_IF_ERROR(ValidateWrite(write));
  Result<RowLayout::Place> place = layout_.PlaceOfQueue(write.queue);
  if (!place.ok()) return place.status();
  item.place = std::move(*place);
  // One statement sees each row once: of two changes to a row the one that counts is chosen here.
  const std::set<TaskKey> deletes(write.deletes.begin(), write.deletes.end());
  bool ascending = true;
  for (std::size_t i = 0; i < write.creates.size(); ++i) {
    const TaskRow& row = write.creates[i];
    if (deletes.contains(row.key)) continue;
    if (!item.creates.empty() && row.key <= item.creates.back()->key) ascending = false;
    item.creates.push_back(&row);
  }
  if (!ascending) {
    std::map<TaskKey, const TaskRow*> last;
    for (const TaskRow* row : item.creates) last[row->key] = row;
    item.creates.clear();
    for (const auto& [key, row] : last) item.creates.push_back(row);
  }
  item.data.resize(item.creates.size());
  for (std::size_t i = 0; i < item.creates.size(); ++i) {
    MR_RETURN_IF_ERROR(layout_.EncodeTask(*item.creates[i], item.data[i]));
  }
  std::map<std::string_view, const SideRow*> puts;
  for (const SideRow& row : write.side_puts) puts[row.key] = &row;
  for (const auto& [key, row] : puts) item.side_puts.push_back(row);
  return {};
}

PgParams PgWriteGroup::Parameters(const Round& round, std::string_view synchronous_commit) {
  PgArray queue_hash(Of::kInt8);
  PgArray queue_id(Of::kBytes);
  PgArray expected(Of::kInt8);
  PgArray range_id(Of::kInt8);
  PgArray data(Of::kBytes);
  PgArray kept_time(Of::kBytes);
  PgArray state_time(Of::kInt8);
  PgArray state(Of::kBytes);
  TaskArrays creates;
  PgArray create_data(Of::kBytes);
  TaskArrays deletes;
  SideArrays puts;
  PgArray put_values(Of::kBytes);
  SideArrays side_deletes;
  std::string bytes;
  std::int32_t number = 0;
  for (const std::size_t index : round.writes) {
    ++number;
    const QueueWrite& write = writes_[index];
    const Item& item = items_[index];
    queue_hash.AddInt8(item.place.range_hash);
    queue_id.AddBytes(item.place.task_queue_id);
    expected.AddInt8(write.expected_range_id.value);
    if (write.metadata) {
      range_id.AddInt8(write.metadata->range_id.value);
      state_time.AddInt8(write.metadata->update_time.ns);
    } else {
      range_id.AddNull();
      state_time.AddNull();
    }
    if (write.metadata && !write.keep_owner_state) {
      layout_.EncodeQueue(write.queue, item.place, *write.metadata, bytes);
      data.AddBytes(bytes);
      // Never empty: an empty one means to keep what there is.
      if (layout_.keeps_state()) state.AddBytes(StatePrefix(bytes), write.metadata->owner_state);
      kept_time.AddNull();
    } else {
      data.AddNull();
      state.AddNull();
      kept_time.AddBytes(write.metadata ? layout_.EncodeUpdateTime(write.metadata->update_time)
                                        : std::string());
    }
    for (std::size_t i = 0; i < item.creates.size(); ++i) {
      const TaskRow& row = *item.creates[i];
      creates.Add(number, layout_.PlaceOfTasks(item.place, row.key.subqueue), row.key.level);
      create_data.AddBytes(item.data[i]);
    }
    for (const TaskKey& key : write.deletes) {
      deletes.Add(number, layout_.PlaceOfTasks(item.place, key.subqueue), key.level);
    }
    for (const SideRow* row : item.side_puts) {
      puts.Add(number, item.place, row->key);
      put_values.AddBytes(row->value);
    }
    for (const std::string& key : write.side_deletes) {
      const auto replaced =
          std::lower_bound(item.side_puts.begin(), item.side_puts.end(), key,
                           [](const SideRow* row, const std::string& k) { return row->key < k; });
      if (replaced != item.side_puts.end() && (*replaced)->key == key) continue;
      side_deletes.Add(number, item.place, key);
    }
  }
  PgParams params;
  params.Array(std::move(queue_hash)).Array(std::move(queue_id)).Array(std::move(expected));
  params.Array(std::move(range_id)).Array(std::move(data)).Array(std::move(kept_time));
  creates.MoveTo(params);
  params.Array(std::move(create_data));
  deletes.MoveTo(params);
  puts.MoveTo(params);
  params.Array(std::move(put_values));
  side_deletes.MoveTo(params);
  params.Bytes(synchronous_commit);
  if (layout_.keeps_state()) params.Array(std::move(state_time)).Array(std::move(state));
  return params;
}

}  // namespace millrace::store
