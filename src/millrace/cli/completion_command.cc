#include "millrace/cli/completion_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace millrace::cli {
namespace {

std::vector<CLI::App*> Subcommands(const CLI::App& app) {
  return const_cast<CLI::App&>(app).get_subcommands([](CLI::App*) { return true; });
}

// Everything that may follow the command: its subcommands, its options and those of the commands
// around it.
std::string Words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : Subcommands(app)) words.push_back(command->get_name());
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// One line of the script's table for each command.
void PrintTable(std::ostream& out, const CLI::App& app, const std::string& path) {
  out << "    '" << path << "') words='" << Words(app) << "' ;;\n";
  for (const CLI::App* command : Subcommands(app))
    PrintTable(out, *command, path + " " + command->get_name());
}

// The path grows as long as the next word names a subcommand, that is, has a line in the table.
constexpr char kBash[] = R"(
_millrace_words() {
  local words=''
  case "$1" in
)";
constexpr char kBashEnd[] = R"(    *) return 1 ;;
  esac
  printf '%s' "$words"
}

_millrace() {
  local path=millrace word words i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if _millrace_words "$path $word" > /dev/null; then path="$path $word"; fi
  done
  words=$(_millrace_words "$path")
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}

complete -o default -F _millrace millrace
)";

}  // namespace

void AddCompletionCommand(Command& root, CLI::App& app, Context& context) {
  auto shell = std::make_shared<std::string>();
  Command command = root.Subcommand(
      "completion", "print a script that completes commands and options in a shell");
  command.Text("SHELL", *shell, "", "bash or zsh").Required().OneOf({"bash", "zsh"});
  command.Examples("  source <(millrace completion bash)");
  command.Runs(context, [&context, &app, shell] {
    if (*shell == "zsh") context.out << "autoload -U +X bashcompinit && bashcompinit\n";
    context.out << kBash;
    PrintTable(context.out, app, "millrace");
    context.out << kBashEnd;
    return kExitOk;
  });
}

}  // namespace millrace::cli
