// Rows that another engine wrote into the tables we share with it: whatever they hold is read or
// refused, and what was read is written back as it was.

#include <memory>
#include <optional>
#include <string>

#include "fuzz_input.h"
#include "millrace/store/postgres/temporal_layout.h"

namespace millrace::store {
namespace {

using fuzz::FuzzInput;

void CheckId(const RowLayout& layout, std::string_view id) {
  const std::optional<PhysicalQueueKey> queue = layout.QueueAt(id);
  if (!queue) return;
  const Result<RowLayout::Place> place = layout.PlaceOfQueue(*queue);
  FUZZ_CHECK(place.ok() && place->task_queue_id == id);
  FUZZ_CHECK(layout.PlaceOfTasks(*place, 1).task_queue_id != id);
}

void CheckQueue(const RowLayout& layout, FuzzInput& in) {
  const PhysicalQueueKey queue{"00112233-4455-6677-8899-aabbccddeeff", "q", 1};
  const RowLayout::Place place = *layout.PlaceOfQueue(queue);
  RowLayout::QueueRow row;
  row.range_id = in.Int64();
  row.state_range_id = in.Bool() ? row.range_id : in.Int64();
  row.state_update_time = in.Int64();
  row.encoding = "Proto3";
  const std::string stored = in.String();
  row.data = in.Rest();
  row.state = OwnerStateIn(stored, row.data);
  Result<QueueMetadata> metadata = layout.DecodeQueue(place, row);
  if (!metadata.ok()) return;
  FUZZ_CHECK(!metadata->subqueues.empty());
  metadata->update_time = WallTime{1'700'000'000'000'000'000};
  std::string written;
  layout.EncodeQueue(queue, place, *metadata, written);
  Result<QueueMetadata> again =
      layout.DecodeQueue(place, {row.range_id, written, "Proto3", {}, 0, 0});
  FUZZ_CHECK(again.ok());
  // Once in our order, it stays.
  std::string same;
  layout.EncodeQueue(queue, place, *again, same);
  FUZZ_CHECK(same == written);
  again->carried = metadata->carried;
  again->owner_state = metadata->owner_state;
  FUZZ_CHECK(*again == *metadata);
}

void CheckTask(const RowLayout& layout, std::string_view data) {
  TaskRow row;
  row.key.level.id = TaskId{7};
  if (!layout.DecodeTask(data, "Proto3", row).ok()) return;
  std::string written;
  FUZZ_CHECK(layout.EncodeTask(row, written).ok());
  TaskRow again;
  again.key = row.key;
  FUZZ_CHECK(layout.DecodeTask(written, "Proto3", again).ok());
  FUZZ_CHECK(again == row);
  // Other times: all else stays.
  again.create_time = WallTime{5'000'000'001};
  again.expiry_time = WallTime{6'000'000'002};
  written.clear();
  FUZZ_CHECK(layout.EncodeTask(again, written).ok());
  FUZZ_CHECK(layout.DecodeTask(written, "Proto3", row).ok());
  FUZZ_CHECK(row.create_time == again.create_time && row.expiry_time == again.expiry_time);
}

}  // namespace
}  // namespace millrace::store

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::store;
  millrace::fuzz::FuzzInput in(data, size);
  const auto layout =
      MakeTemporalLayout(in.Bool() ? TemporalTables::kFair : TemporalTables::kClassic, nullptr);
  switch (in.Below(3)) {
    case 0:
      CheckId(*layout, in.Rest());
      break;
    case 1:
      CheckQueue(*layout, in);
      break;
    default:
      CheckTask(*layout, in.Rest());
      break;
  }
  return 0;
}
