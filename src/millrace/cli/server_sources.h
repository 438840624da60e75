#pragma once

#include "millrace/cli/command.h"
#include "millrace/server/config_load.h"

namespace millrace::cli {

// One flag for each setting of the server, and --config; what is given goes to `sources`.
void AddServerSettings(Command& command, server::ConfigSources& sources);

}  // namespace millrace::cli
