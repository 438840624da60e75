#pragma once

#include <string>
#include <vector>

#include "millrace/cli/command.h"
#include "millrace/cli/context.h"

namespace millrace::cli {

// The `millrace` command line: parses `args` (without the program's name) and runs the command they
// name. Returns the process's exit code. `context` is filled from the arguments and its
// environment.
int RunCli(std::vector<std::string> args, Context& context);

// Each adds one group of subcommands. Parsing one of them sets context.action.
void AddServerCommand(Command& root, Context& context);
void AddTaskCommands(Command& root, Context& context);
void AddEnqueueCommand(Command& task, Context& context);
void AddWorkCommand(Command& root, Context& context);
void AddNodeCommands(Command& root, Context& context);
void AddQueueCommands(Command& root, Context& context);
void AddAuditCommand(Command& root, Context& context);
void AddBenchCommand(Command& root, Context& context);
void AddConfigCommands(Command& root, Context& context);
void AddStoreCommands(Command& root, Context& context);
void AddVersionCommand(Command& root, Context& context);

}  // namespace millrace::cli
