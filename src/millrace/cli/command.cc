#include "millrace/cli/command.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "millrace/server/value_text.h"

namespace millrace::cli {
namespace {

bool IsArgument(const std::string& name) { return !name.starts_with('-'); }

template <typename Number>
CLI::Option* AddNumber(CLI::App* app, const std::string& name, Number& target, Number min,
                       Number max, const std::string& help) {
  CLI::Option* option =
      app->add_option(name, target, help)->check(CLI::Range(min, max))->type_name("N");
  // A default outside of the range means "not given".
  if (target >= min && target <= max) option->capture_default_str();
  return option;
}

}  // namespace

CommandOption& CommandOption::Required() {
  option_->required();
  return *this;
}

CommandOption& CommandOption::OneOf(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

CommandOption& CommandOption::Excludes(const CommandOption& other) {
  option_->excludes(other.option_);
  return *this;
}

CommandOption& CommandOption::Group(const std::string& name) {
  option_->group(name);
  return *this;
}

Command Command::Subcommand(const std::string& name, const std::string& help) {
  const std::size_t line_end = help.find('\n');
  CLI::App* command = app_->add_subcommand(name, help.substr(0, line_end));
  // Set in any case: the parser would take over the parent's.
  command->footer(line_end == std::string::npos ? std::string() : help.substr(line_end + 1));
  return Command(command);
}

void Command::NeedsSubcommand() { app_->require_subcommand(1); }

void Command::Examples(const std::string& lines) {
  const std::string more = app_->get_footer();
  app_->footer((more.empty() ? "" : more + "\n\n") + "Examples:\n" + lines);
}

CommandOption Command::Text(const std::string& name, std::string& target, const std::string& type,
                            const std::string& help) {
  CLI::Option* option =
      app_->add_option(name, target, help)->type_name(IsArgument(name) ? "" : type);
  if (!target.empty()) option->capture_default_str();
  return CommandOption(option);
}

CommandOption Command::Texts(const std::string& name, std::vector<std::string>& target,
                             const std::string& type, const std::string& help) {
  CLI::Option* option =
      app_->add_option(name, target, help)->type_name(IsArgument(name) ? "" : type);
  if (!IsArgument(name)) option->allow_extra_args(false);
  return CommandOption(option);
}

CommandOption Command::Number(const std::string& name, int& target, int min, int max,
                              const std::string& help) {
  return CommandOption(AddNumber(app_, name, target, min, max, help));
}

CommandOption Command::Number(const std::string& name, std::int64_t& target, std::int64_t min,
                              std::int64_t max, const std::string& help) {
  return CommandOption(AddNumber(app_, name, target, min, max, help));
}

CommandOption Command::Time(const std::string& name, Duration& target, const std::string& help,
                            Duration min) {
  CLI::Option* option = app_->add_option_function<std::string>(
      name, [&target](const std::string& text) { target = *server::ParseDuration(text); }, help);
  option->type_name("DURATION")->default_str(server::FormatDuration(target));
  option->check([min](const std::string& text) {
    const Result<Duration> parsed = server::ParseDuration(text);
    if (!parsed.ok()) return std::string(parsed.status().message());
    return parsed.value() < min ? "must be at least " + server::FormatDuration(min) : std::string();
  });
  return CommandOption(option);
}

CommandOption Command::Size(const std::string& name, std::uint64_t& target,
                            const std::string& help) {
  CLI::Option* option = app_->add_option_function<std::string>(
      name,
      [&target](const std::string& text) {
        target = static_cast<std::uint64_t>(*server::ParseSize(text));
      },
      help);
  option->type_name("SIZE")->default_str(server::FormatSize(static_cast<std::int64_t>(target)));
  option->check([](const std::string& text) {
    const Result<std::int64_t> parsed = server::ParseSize(text);
    if (!parsed.ok()) return std::string(parsed.status().message());
    return parsed.value() < 0 ? std::string("must not be negative") : std::string();
  });
  return CommandOption(option);
}

CommandOption Command::Flag(const std::string& name, bool& target, const std::string& help) {
  return CommandOption(app_->add_flag(name, target, help));
}

CommandOption Command::TextTo(const std::string& name, std::function<void(const std::string&)> take,
                              const std::string& type, const std::string& default_text,
                              const std::string& help) {
  CLI::Option* option =
      app_->add_option_function<std::string>(name, std::move(take), help)->type_name(type);
  if (!default_text.empty()) option->default_str(default_text);
  return CommandOption(option);
}

CommandOption Command::FlagTo(const std::string& name, std::function<void()> take,
                              const std::string& help) {
  return CommandOption(app_->add_flag_callback(name, std::move(take), help));
}

void Command::Queue(std::string& target) {
  Text("QUEUE", target, "", "name of the queue").Required();
}

void Command::Runs(Context& context, std::function<ExitCode()> action) {
  // The parser calls the innermost command first.
  app_->callback([&context, action = std::move(action)] {
    if (!context.action) context.action = action;
  });
}

}  // namespace millrace::cli
