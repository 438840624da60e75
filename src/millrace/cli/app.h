#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "millrace/cli/context.h"

namespace millrace::cli {

// The `millrace` command line: parses `args` (without the program's name) and runs the command they
// name. Returns the process's exit code. `context` is filled from the arguments and its
// environment.
int RunCli(std::vector<std::string> args, Context& context);

// Each adds one group of subcommands. Parsing one of them sets context.action.
void AddServerCommand(CLI::App& root, Context& context);
void AddTaskCommands(CLI::App& root, Context& context);
void AddEnqueueCommand(CLI::App& task, Context& context);
void AddWorkCommand(CLI::App& root, Context& context);
void AddQueueCommands(CLI::App& root, Context& context);
void AddAuditCommand(CLI::App& root, Context& context);
void AddBenchCommand(CLI::App& root, Context& context);
void AddConfigCommands(CLI::App& root, Context& context);
void AddVersionCommand(CLI::App& root, Context& context);
void AddCompletionCommand(CLI::App& root, Context& context);

}  // namespace millrace::cli
