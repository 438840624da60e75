#include <memory>
#include <string>

#include "millrace/base/metrics.h"
#include "millrace/cli/app.h"
#include "millrace/cli/output.h"
#include "millrace/cli/server_sources.h"
#include "millrace/server/config_load.h"
#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/schema.h"

namespace millrace::cli {
namespace {

ExitCode Migrate(Context& context, server::ConfigSources sources, bool dry_run) {
  sources.environment = context.environment;
  const Result<server::LoadedConfig> loaded = server::LoadConfig(sources);
  if (!loaded.ok()) return context.Fail(kExitUsage, std::string(loaded.status().message()));
  store::PgCounters counters(NullMetrics());
  const store::PostgresConfig& config = loaded->config.postgres;
  Result<std::unique_ptr<store::PgConnection>> connection =
      store::PgConnection::Connect(config, counters);
  if (!connection.ok()) {
    return context.Fail(kExitUnavailable, std::string(connection.status().message()),
                        "--postgres-url names the database");
  }
  const Result<store::SchemaPlan> plan = store::PlanSchema(**connection);
  if (!plan.ok()) return context.Fail(kExitFailed, std::string(plan.status().message()));
  if (!dry_run) {
    const Status applied = store::ApplySchema(**connection, *plan);
    if (!applied.ok()) return context.Fail(kExitFailed, std::string(applied.message()));
  }
  if (context.output != OutputFormat::kTable) {
    PrintObject(context.out, context.output,
                {{"found_version", plan->found_version},
                 {"version", store::kSchemaVersion},
                 {"statements", plan->statements},
                 {"applied", !dry_run && !plan->statements.empty()}});
    return kExitOk;
  }
  for (const std::string& statement : plan->statements) context.out << statement << ";\n";
  if (plan->statements.empty()) {
    context.out << "nothing to do: the database is at version " << store::kSchemaVersion << "\n";
  } else if (!dry_run) {
    context.out << "done: the database is at version " << store::kSchemaVersion << "\n";
  }
  return kExitOk;
}

}  // namespace

void AddStoreCommands(Command& root, Context& context) {
  Command group = root.Subcommand("store", "prepare a database");
  group.NeedsSubcommand();
  auto sources = std::make_shared<server::ConfigSources>();
  auto dry_run = std::make_shared<bool>(false);
  Command migrate = group.Subcommand(
      "migrate",
      "make the tables that are missing in the PostgreSQL database, and check the others\n"
      "Tables that Temporal made are used as they are. May be repeated at any time. Takes the\n"
      "server's settings, of which only postgres.* count.");
  migrate.Flag("--dry-run", *dry_run, "print what would be done, and do nothing");
  AddServerSettings(migrate, *sources);
  migrate.Examples(
      "  millrace store migrate --postgres-url postgresql://millrace@db/queues --dry-run\n"
      "  PGSERVICE=queues millrace store migrate");
  migrate.Runs(context,
               [&context, sources, dry_run] { return Migrate(context, *sources, *dry_run); });
}

}  // namespace millrace::cli
