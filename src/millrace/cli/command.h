#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/cli/context.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// How commands describe their arguments. The parser behind it is large, so only its own sources
// include it.
namespace millrace::cli {

// One option or argument of a command.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  CommandOption& Required();
  CommandOption& OneOf(const std::vector<std::string>& words);
  CommandOption& Excludes(const CommandOption& other);
  CommandOption& Group(const std::string& name);

 private:
  CLI::Option* option_;
};

// One command, to which options, arguments and subcommands are added. A name like "-o,--output" is
// an option, one without dashes an argument that is known by its place. Targets must outlive
// parsing; what they hold is the default, and the help shows it. Bad values are usage errors that
// say what is expected.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // The first line of `help` stands in the list of commands, the others in the command's own help.
  Command Subcommand(const std::string& name, const std::string& help);
  void NeedsSubcommand();
  // Below the help, one a line.
  void Examples(const std::string& lines);

  // `type` stands for the value in the help.
  CommandOption Text(const std::string& name, std::string& target, const std::string& type,
                     const std::string& help);
  // An option may be repeated and takes one value each time; an argument takes all that come.
  CommandOption Texts(const std::string& name, std::vector<std::string>& target,
                      const std::string& type, const std::string& help);
  CommandOption Number(const std::string& name, int& target, int min, int max,
                       const std::string& help);
  CommandOption Number(const std::string& name, std::int64_t& target, std::int64_t min,
                       std::int64_t max, const std::string& help);
  CommandOption Time(const std::string& name, Duration& target, const std::string& help,
                     Duration min = Duration::zero());
  CommandOption Size(const std::string& name, std::uint64_t& target, const std::string& help);
  CommandOption Flag(const std::string& name, bool& target, const std::string& help);
  // For values that go elsewhere.
  CommandOption TextTo(const std::string& name, std::function<void(const std::string&)> take,
                       const std::string& type, const std::string& default_text,
                       const std::string& help);
  CommandOption FlagTo(const std::string& name, std::function<void()> take,
                       const std::string& help);

  // The required first argument of many commands.
  void Queue(std::string& target);

  // What to do when this command is named, and none of its subcommands.
  void Runs(Context& context, std::function<ExitCode()> action);

 private:
  CLI::App* app_;
};

}  // namespace millrace::cli
