#pragma once

#include <CLI/CLI.hpp>

#include "millrace/server/config_load.h"

namespace millrace::cli {

// One flag for each setting of the server, and --config; what is given goes to `sources`.
void AddServerSettings(CLI::App* command, server::ConfigSources& sources);

}  // namespace millrace::cli
