#pragma once

#include <cstddef>
#include <string>

#include "millrace/base/time.h"

namespace millrace::store {

struct PostgresConfig {
  // A connection string as libpq takes it: a URI or "key=value ..." pairs. What it leaves out comes
  // from the PG* environment variables, the service file and the password file, as usual.
  std::string url;

  // Connections of one process: one writes, one deletes what is done, the others read.
  std::size_t connections_max = 4;
  // How long a call waits for a free one.
  Duration connection_wait_max = std::chrono::seconds(5);

  Duration connect_timeout = std::chrono::seconds(5);
  // The server gives up on a statement after this time; this side hangs up reply_margin later.
  Duration statement_timeout = std::chrono::seconds(10);
  Duration reply_margin = std::chrono::seconds(5);
  // How long a write waits for a row that another session has locked.
  Duration lock_timeout = std::chrono::seconds(2);
  // A queue with many rows takes long to delete.
  Duration delete_queue_timeout = std::chrono::minutes(10);

  // Attempts to reach a server that does not answer.
  Duration reconnect_min = std::chrono::milliseconds(50);
  Duration reconnect_max = std::chrono::seconds(3);
  // How often connections at rest are looked at, without a statement.
  Duration watch_interval = std::chrono::milliseconds(250);
};

}  // namespace millrace::store
