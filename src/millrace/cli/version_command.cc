#include "millrace/cli/app.h"
#include "millrace/server/version.h"

namespace millrace::cli {

void AddVersionCommand(CLI::App& root, Context& context) {
  root.add_subcommand("version", "the version of this program")->callback([&context] {
    context.action = [&context] {
      if (context.output == OutputFormat::kTable) {
        context.out << "millrace " << server::Version() << " (" << server::Compiler();
        if (!server::BuildType().empty()) context.out << ", " << server::BuildType();
        context.out << ")\n";
      } else {
        context.out << server::VersionJson() << "\n";
      }
      return kExitOk;
    };
  });
}

}  // namespace millrace::cli
