#pragma once

#include <string>

#include "millrace/store/task_store.h"
#include "tests/conformance/words.h"

namespace millrace::conformance {

// Single calls of a store, for what the engine does not do by itself (QUEUE = namespace, name,
// type).
//
//   metadata QUEUE               metadata RANGE-ID UPDATED STATE N, then N times PASS ID COUNT
//   rows QUEUE SUBQUEUE          tasks N, then N words KEY CREATED EXPIRES PAYLOAD each
//   write QUEUE EXPECTED-RANGE-ID NEW-RANGE-ID, then any of
//     create KEY CREATED EXPIRES PAYLOAD | delete KEY | subqueue PASS ID COUNT      written
//   list                         queues N, then N times QUEUE RANGE-ID
//
// `write` writes the queue's row as well, for a queue that is there with what it carries, and with
// the subqueues named or, when none is, those it has.
std::string DoOnStore(store::TaskStore& store, const std::string& command, Words& words);

}  // namespace millrace::conformance
