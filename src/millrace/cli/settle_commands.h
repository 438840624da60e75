#pragma once

#include "millrace/cli/command.h"
#include "millrace/cli/context.h"

namespace millrace::cli {

// `task complete`, `fail`, `extend` and `release`: the calls that take lease tokens.
void AddSettleCommands(Command& task, Context& context);

}  // namespace millrace::cli
