#pragma once

#include "millrace/cli/command.h"
#include "millrace/cli/context.h"

namespace millrace::cli {

// `completion`: prints a script for a shell, made from the commands and options below `app`, which
// is `root`'s.
void AddCompletionCommand(Command& root, CLI::App& app, Context& context);

}  // namespace millrace::cli
