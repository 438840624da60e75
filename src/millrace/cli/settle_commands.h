#pragma once

#include <CLI/CLI.hpp>

#include "millrace/cli/context.h"

namespace millrace::cli {

// `task complete`, `fail`, `extend` and `release`: the calls that take lease tokens.
void AddSettleCommands(CLI::App& task, Context& context);

}  // namespace millrace::cli
