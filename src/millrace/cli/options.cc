#include "millrace/cli/options.h"

#include "millrace/server/value_text.h"

namespace millrace::cli {

CLI::Option* AddDuration(CLI::App* command, const std::string& name, Duration& target,
                         const std::string& help) {
  return command
      ->add_option_function<std::string>(
          name, [&target](const std::string& text) { target = *server::ParseDuration(text); }, help)
      ->type_name("DURATION")
      ->default_str(server::FormatDuration(target))
      ->check([](const std::string& text) {
        const Result<Duration> parsed = server::ParseDuration(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        return parsed.value() < Duration::zero() ? std::string("must not be negative")
                                                 : std::string();
      });
}

CLI::Option* AddSize(CLI::App* command, const std::string& name, std::uint64_t& target,
                     const std::string& help) {
  return command
      ->add_option_function<std::string>(
          name,
          [&target](const std::string& text) {
            target = static_cast<std::uint64_t>(*server::ParseSize(text));
          },
          help)
      ->type_name("SIZE")
      ->default_str(server::FormatSize(static_cast<std::int64_t>(target)))
      ->check([](const std::string& text) {
        const Result<std::int64_t> parsed = server::ParseSize(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        return parsed.value() < 0 ? std::string("must not be negative") : std::string();
      });
}

CLI::Option* AddQueue(CLI::App* command, std::string& target) {
  return command->add_option("QUEUE", target, "name of the queue")->required()->type_name("");
}

void AddExamples(CLI::App* command, const std::string& lines) {
  command->footer("Examples:\n" + lines);
}

}  // namespace millrace::cli
