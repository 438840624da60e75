#include "millrace/cli/app.h"
#include "millrace/server/version.h"

namespace millrace::cli {

void AddVersionCommand(Command& root, Context& context) {
  root.Subcommand("version", "the version of this program").Runs(context, [&context] {
    if (context.output == OutputFormat::kTable) {
      context.out << "millrace " << server::Version() << " (" << server::Compiler();
      if (!server::BuildType().empty()) context.out << ", " << server::BuildType();
      context.out << ")\n";
    } else {
      context.out << server::VersionJson() << "\n";
    }
    return kExitOk;
  });
}

}  // namespace millrace::cli
