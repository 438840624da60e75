#include "millrace/store/postgres/pg_write_group.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

using Of = PgArray::Of;

// Where the task rows of a statement lie, each place once.
class Places {
 public:
  // The number, from 1, of the place of `of`'s tasks in this subqueue. `queue`: changes with `of`.
  std::int32_t NumberOf(const RowLayout& layout, std::int32_t queue, const RowLayout::Place& of,
                        Subqueue subqueue) {
    const auto [it, added] = numbers_.try_emplace({queue, subqueue}, hash_.size() + 1);
    if (added) {
      const RowLayout::Place place = layout.PlaceOfTasks(of, subqueue);
      hash_.AddInt8(place.range_hash);
      id_.AddBytes(place.task_queue_id);
    }
    return it->second;
  }
  void MoveTo(PgParams& params) { params.Array(std::move(hash_)).Array(std::move(id_)); }

 private:
  std::map<std::pair<std::int32_t, Subqueue>, std::int32_t> numbers_;
  PgArray hash_{Of::kInt8};
  PgArray id_{Of::kBytes};
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
    if (round == rounds_.size()) rounds_.push_back({{}, false, {.updates_all = true}});
    AddTo(rounds_[round], valid[i]);
  }
}

PgWriteGroup::Round PgWriteGroup::Alone(std::size_t write) const {
  Round round{{}, false, {.updates_all = true}};
  AddTo(round, write);
  return round;
}

void PgWriteGroup::AddTo(Round& round, std::size_t index) const {
  const QueueWrite& write = writes_[index];
  const Item& item = items_[index];
  round.writes.push_back(index);
  round.synced = round.synced || write.durability == Durability::kSynced;
  CommitShape& shape = round.shape;
  const bool makes = write.expected_range_id.value == 0;
  shape.makes_queues = shape.makes_queues || makes;
  shape.updates_all = shape.updates_all && !makes && write.metadata && !write.keep_owner_state;
  shape.creates = shape.creates || !item.creates.empty();
  shape.deletes = shape.deletes || !item.deletes.empty();
  shape.side_puts = shape.side_puts || !item.side_puts.empty();
  shape.side_deletes = shape.side_deletes || !item.side_deletes.empty();
}

std::vector<PgWriteGroup::Run> PgWriteGroup::RunsOf(const std::vector<TaskKey>& keys) {
  std::vector<TaskKey> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Run> runs;
  for (const TaskKey& key : sorted) {
    const std::int64_t id = key.level.id.value;
    if (!runs.empty()) {
      Run& last = runs.back();
      const bool same = last.subqueue == key.subqueue && last.pass == key.level.pass;
      if (same && id == last.last) continue;
      if (same && id - 1 == last.last) {
        last.last = id;
        continue;
      }
    }
    runs.push_back({key.subqueue, key.level.pass, id, id});
  }
  return runs;
}

Status PgWriteGroup::LoadOne(const QueueWrite& write, Item& item) {
  MR_RETURN_IF_ERROR(ValidateWrite(write));
  Result<RowLayout::Place> place = layout_.PlaceOfQueue(write.queue);
  if (!place.ok()) return place.status();
  item.place = std::move(*place);
  // One statement sees each row once: of two changes to a row the one that counts is chosen here.
  item.deletes = RunsOf(write.deletes);
  const auto deleted = [&item](const TaskKey& key) {
    const auto after = std::upper_bound(
        item.deletes.begin(), item.deletes.end(), key, [](const TaskKey& k, const Run& run) {
          return std::tie(k.subqueue, k.level.pass, k.level.id.value) <
                 std::tie(run.subqueue, run.pass, run.first);
        });
    if (after == item.deletes.begin()) return false;
    const Run& run = *std::prev(after);
    return run.subqueue == key.subqueue && run.pass == key.level.pass &&
           key.level.id.value <= run.last;
  };
  bool ascending = true;
  for (std::size_t i = 0; i < write.creates.size(); ++i) {
    const TaskRow& row = write.creates[i];
    if (deleted(row.key)) continue;
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
  for (const std::string& key : write.side_deletes) {
    if (!puts.contains(key)) item.side_deletes.push_back(&key);
  }
  return {};
}

PgParams PgWriteGroup::Parameters(const Round& round, const CommitShape& shape,
                                  std::string_view synchronous_commit) {
  PgArray queue_hash(Of::kInt8);
  PgArray queue_id(Of::kBytes);
  PgArray expected(Of::kInt8);
  PgArray range_id(Of::kInt8);
  PgArray data(Of::kBytes);
  PgArray kept_time(Of::kBytes);
  PgArray state_time(Of::kInt8);
  PgArray state(Of::kBytes);
  Places places;
  PgArray create_queue(Of::kInt4);
  PgArray create_place(Of::kInt4);
  PgArray create_pass(Of::kInt8);
  PgArray create_id(Of::kInt8);
  PgArray create_data(Of::kBytes);
  PgArray delete_queue(Of::kInt4);
  PgArray delete_place(Of::kInt4);
  PgArray delete_pass(Of::kInt8);
  PgArray delete_first(Of::kInt8);
  PgArray delete_last(Of::kInt8);
  PgArray put_queue(Of::kInt4);
  PgArray put_key(Of::kBytes);
  PgArray put_value(Of::kBytes);
  PgArray side_delete_queue(Of::kInt4);
  PgArray side_delete_key(Of::kBytes);
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
      const TaskKey& key = item.creates[i]->key;
      create_queue.AddInt4(number);
      create_place.AddInt4(places.NumberOf(layout_, number, item.place, key.subqueue));
      create_pass.AddInt8(key.level.pass);
      create_id.AddInt8(key.level.id.value);
      create_data.AddBytes(item.data[i]);
    }
    for (const Run& run : item.deletes) {
      delete_queue.AddInt4(number);
      delete_place.AddInt4(places.NumberOf(layout_, number, item.place, run.subqueue));
      delete_pass.AddInt8(run.pass);
      delete_first.AddInt8(run.first);
      delete_last.AddInt8(run.last);
    }
    for (const SideRow* row : item.side_puts) {
      put_queue.AddInt4(number);
      put_key.AddBytes(row->key);
      put_value.AddBytes(row->value);
    }
    for (const std::string* key : item.side_deletes) {
      side_delete_queue.AddInt4(number);
      side_delete_key.AddBytes(*key);
    }
  }
  PgParams params;
  params.Array(std::move(queue_hash)).Array(std::move(queue_id)).Array(std::move(expected));
  params.Array(std::move(range_id)).Array(std::move(data));
  if (!shape.updates_all) params.Array(std::move(kept_time));
  if (layout_.keeps_state()) params.Array(std::move(state_time)).Array(std::move(state));
  params.Bytes(synchronous_commit);
  if (shape.creates || shape.deletes) places.MoveTo(params);
  if (shape.creates) {
    params.Array(std::move(create_queue)).Array(std::move(create_place));
    params.Array(std::move(create_pass)).Array(std::move(create_id)).Array(std::move(create_data));
  }
  if (shape.deletes) {
    params.Array(std::move(delete_queue)).Array(std::move(delete_place));
    params.Array(std::move(delete_pass)).Array(std::move(delete_first));
    params.Array(std::move(delete_last));
  }
  if (shape.side_puts) {
    params.Array(std::move(put_queue)).Array(std::move(put_key)).Array(std::move(put_value));
  }
  if (shape.side_deletes) {
    params.Array(std::move(side_delete_queue)).Array(std::move(side_delete_key));
  }
  return params;
}

}  // namespace millrace::store
