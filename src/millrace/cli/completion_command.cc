#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "millrace/cli/app.h"

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

void AddCompletionCommand(CLI::App& root, Context& context) {
  CLI::App* command = root.add_subcommand(
      "completion", "print a script that completes commands and options in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("");
  command->footer("Examples:\n  source <(millrace completion bash)");
  command->callback([&context, &root, shell] {
    context.action = [&context, &root, shell] {
      if (*shell == "zsh") context.out << "autoload -U +X bashcompinit && bashcompinit\n";
      context.out << kBash;
      PrintTable(context.out, root, "millrace");
      context.out << kBashEnd;
      return kExitOk;
    };
  });
}

}  // namespace millrace::cli
