#include "millrace/store/rocksdb/wal_check.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/wal_filter.h>

#include "millrace/base/mutation.h"
#include "millrace/store/rocksdb/rocks_status.h"
#include "millrace/store/rocksdb/wal_scan.h"

namespace millrace::store {
namespace {

constexpr std::string_view kLogSuffix = ".log";

// The first thing in a row of logs that recovery would stumble over, and what is behind it.
struct Damage {
  std::size_t log = 0;                         // Index into the logs looked through.
  std::size_t offset = 0;                      // In that log.
  std::optional<std::uint64_t> next_sequence;  // What would have followed the last good record.
  std::optional<WalRecord> first_behind;
  std::uint64_t claimed = 0;  // The most that a record behind says was synced.
};

struct LogFile {
  std::uint64_t number = 0;
  std::string path;
  std::uint64_t size = 0;
};

Result<std::vector<LogFile>> ListLogs(rocksdb::Env& env, const std::string& db_path) {
  std::vector<std::string> names;
  const rocksdb::Status listed = env.GetChildren(db_path, &names);
  // No database yet.
  if (listed.IsNotFound()) return std::vector<LogFile>();
  MR_RETURN_IF_ERROR(FromRocks(listed, "cannot list " + db_path));
  std::vector<LogFile> logs;
  for (const std::string& name : names) {
    if (!name.ends_with(kLogSuffix)) continue;
    const char* end = name.data() + name.size() - kLogSuffix.size();
    LogFile log;
    if (std::from_chars(name.data(), end, log.number).ptr != end) continue;
    log.path = db_path + "/" + name;
    logs.push_back(std::move(log));
  }
  std::sort(logs.begin(), logs.end(),
            [](const LogFile& a, const LogFile& b) { return a.number < b.number; });
  return logs;
}

// Fills in the sizes. Nothing when recovery will find every record of every log.
Result<std::optional<Damage>> FindDamage(rocksdb::Env& env, std::vector<LogFile>& logs) {
  std::optional<Damage> damage;
  std::optional<std::uint64_t> next_sequence;
  const auto behind = [&damage](const WalRecord& record) {
    if (!damage->first_behind) damage->first_behind = record;
    damage->claimed = std::max(damage->claimed, record.synced_through.value_or(0));
  };
  for (std::size_t i = 0; i < logs.size(); ++i) {
    std::string bytes;
    MR_RETURN_IF_ERROR(FromRocks(rocksdb::ReadFileToString(&env, logs[i].path, &bytes),
                                 "cannot read " + logs[i].path));
    logs[i].size = bytes.size();
    const auto good = [&](const WalRecord& record) {
      // A gap: the end of the log before is missing, cut just between two records.
      if (!damage && next_sequence && record.first_sequence != *next_sequence) {
        damage = Damage{i, record.begin, next_sequence, {}, 0};
      }
      if (damage) {
        behind(record);
      } else {
        next_sequence = record.next_sequence();
      }
    };
    // Damage must exist before the records behind it are seen, so the log is gone through once more
    // when there is any.
    const WalScan scan = ScanWal(bytes, good, [](const WalRecord&) {});
    if (!scan.damaged) continue;
    if (!damage) damage = Damage{i, scan.good_bytes, next_sequence, {}, 0};
    ScanWal(bytes, [](const WalRecord&) {}, behind);
  }
  return damage;
}

// Stops at the first record; wants only to know which logs still count.
class LogNumberFilter final : public rocksdb::WalFilter {
 public:
  void ColumnFamilyLogNumberMap(const std::map<std::uint32_t, std::uint64_t>& log_numbers,
                                const std::map<std::string, std::uint32_t>&) override {
    for (const auto& [family, number] : log_numbers) {
      oldest_ = oldest_ ? std::min(*oldest_, number) : number;
    }
  }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,  // NOLINT
                                     const rocksdb::WriteBatch&, rocksdb::WriteBatch*,
                                     bool*) override {
    return WalProcessingOption::kStopReplay;
  }
  [[nodiscard]] const char* Name() const override { return "millrace.log-number"; }
  [[nodiscard]] std::optional<std::uint64_t> oldest() const { return oldest_; }

 private:
  std::optional<std::uint64_t> oldest_;
};

struct Flushed {
  std::uint64_t oldest_log = 0;     // Logs below are of no more use.
  std::uint64_t last_sequence = 0;  // Of what is in tables, or a little more.
};

Result<Flushed> ReadFlushed(rocksdb::Env& env, const std::string& db_path) {
  LogNumberFilter filter;
  rocksdb::Options options;
  options.env = &env;
  options.wal_filter = &filter;
  // As in MakeRocksOptions: a read-only open cannot change what the manifest says of logs.
  options.track_and_verify_wals_in_manifest = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, db_path, &raw);
  const std::unique_ptr<rocksdb::DB> db(raw);
  MR_RETURN_IF_ERROR(FromRocks(opened, "cannot look into " + db_path));
  return Flushed{filter.oldest().value_or(0), db->GetLatestSequenceNumber()};
}

bool LosesSyncedWork(const Damage& damage, const Flushed& flushed) {
  if (!damage.first_behind || MR_MUTANT(rocks_damage_taken_for_torn_tail)) return false;
  if (damage.next_sequence) return damage.claimed >= *damage.next_sequence;
  // Not even the first record is good: either a later one says that more was synced than tables
  // hold, or the next one says that all before it was.
  return damage.claimed > flushed.last_sequence ||
         damage.first_behind->synced_through.value_or(0) + 1 >= damage.first_behind->first_sequence;
}

// Leaves the first `size` bytes of the log, in one step.
Status Cut(rocksdb::Env& env, const std::string& db_path, const LogFile& log, std::uint64_t size) {
  std::string bytes;
  MR_RETURN_IF_ERROR(
      FromRocks(rocksdb::ReadFileToString(&env, log.path, &bytes), "cannot read " + log.path));
  bytes.resize(size);
  // RocksDB removes files of this name when it opens, should this be interrupted.
  const std::string kept = db_path + "/" + std::to_string(log.number) + ".dbtmp";
  MR_RETURN_IF_ERROR(FromRocks(rocksdb::WriteStringToFile(&env, bytes, kept, /*sync=*/true),
                               "cannot write " + kept));
  MR_RETURN_IF_ERROR(FromRocks(env.RenameFile(kept, log.path), "cannot replace " + log.path));
  std::unique_ptr<rocksdb::Directory> directory;
  MR_RETURN_IF_ERROR(FromRocks(env.NewDirectory(db_path, &directory), "cannot open " + db_path));
  return FromRocks(directory->Fsync(), "cannot sync " + db_path);
}

}  // namespace

Status CheckWals(rocksdb::Env& env, const std::string& db_path, Log& log) {
  Result<std::vector<LogFile>> listed = ListLogs(env, db_path);
  if (!listed.ok()) return listed.status();
  std::vector<LogFile> logs = std::move(*listed);
  Result<std::optional<Damage>> found = FindDamage(env, logs);
  if (!found.ok()) return found.status();
  if (!*found) return {};

  // Logs whose rows are all in tables do not matter any more.
  Result<Flushed> flushed = ReadFlushed(env, db_path);
  if (!flushed.ok()) return flushed.status();
  std::erase_if(logs, [&](const LogFile& file) { return file.number < flushed->oldest_log; });
  found = FindDamage(env, logs);
  if (!found.ok()) return found.status();
  if (!*found) return {};
  const Damage& damage = **found;
  const LogFile& torn = logs[damage.log];
  if (LosesSyncedWork(damage, *flushed)) {
    return {StatusCode::kCorruption,
            torn.path + " is damaged at byte " + std::to_string(damage.offset) +
                ", before acknowledged work that follows it; restore the data directory from a "
                "copy"};
  }
  // Later logs first: if this is interrupted, the damage is still there to be found.
  std::uint64_t cut = torn.size - damage.offset;
  for (std::size_t i = logs.size(); --i > damage.log;) {
    cut += logs[i].size;
    MR_RETURN_IF_ERROR(Cut(env, db_path, logs[i], 0));
  }
  MR_RETURN_IF_ERROR(Cut(env, db_path, torn, damage.offset));
  log.Write(LogLevel::kWarn, "store",
            "the log ended in the middle of a write that was never acknowledged: cut off",
            {{"file", torn.path},
             {"offset", static_cast<std::int64_t>(damage.offset)},
             {"cut_bytes", static_cast<std::int64_t>(cut)}});
  return {};
}

}  // namespace millrace::store
