#pragma once

#include <string>

#include "millrace/base/log.h"
#include "millrace/base/status.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace millrace::store {

// Looks through the logs of the database at `db_path` before RocksDB opens it, so that nothing is
// dropped unsaid.
//
// A machine that stops in the middle of a write leaves a log that ends in a piece of it. That piece
// was never acknowledged: it is cut off, and the log line says where and how many bytes. Damage is
// told apart by the claims that every record carries (wal_claim.h): when a record behind the damage
// says that what is damaged had been synced, acknowledged work is lost, and the database is refused
// with kCorruption, file and position named. A last record with a wrong byte in it looks like a
// torn write, and is cut.
//
// Thread: nobody may have the database open.
Status CheckWals(rocksdb::Env& env, const std::string& db_path, Log& log);

}  // namespace millrace::store
