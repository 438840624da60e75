#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "millrace/base/time.h"

// Kinds of options that several commands have. Bad text is a usage error that says what is
// expected.
namespace millrace::cli {

CLI::Option* AddDuration(CLI::App* command, const std::string& name, Duration& target,
                         const std::string& help);

CLI::Option* AddSize(CLI::App* command, const std::string& name, std::uint64_t& target,
                     const std::string& help);

// The QUEUE argument, required.
CLI::Option* AddQueue(CLI::App* command, std::string& target);

// Examples below the help text, one a line.
void AddExamples(CLI::App* command, const std::string& lines);

}  // namespace millrace::cli
