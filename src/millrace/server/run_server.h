#pragma once

#include "millrace/server/application.h"
#include "millrace/server/config_load.h"

namespace millrace::server {

// The standalone product: queue service over RocksDB, PostgreSQL or memory.
ServerParts StandaloneParts();

// `millrace server`: reads the settings, serves until SIGTERM or SIGINT, and stops within the
// grace. A second signal ends the process at once; SIGHUP reads the settings again and takes over
// the log level. Call it from main's thread before any other thread exists. What goes wrong is said
// on stderr.
//
// Returns the exit code: 0 stopped as asked, 1 could not start, 2 the settings are wrong.
int RunServer(const ConfigSources& sources, ServerParts parts);

}  // namespace millrace::server
