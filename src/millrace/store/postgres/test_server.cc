#include "millrace/store/postgres/test_server.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "millrace/base/check.h"
#include "millrace/base/metrics.h"
#include "millrace/store/postgres/pg_connection.h"
#include "millrace/store/postgres/schema.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

// The newest installed server's programs.
std::string BinFolder() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", ignored)) {
    if (fs::exists(entry.path() / "bin" / "initdb")) {
      found.push_back((entry.path() / "bin").string());
    }
  }
  MR_CHECK(!found.empty());  // Debian package postgresql is missing.
  std::sort(found.begin(), found.end());
  return found.back();
}

pid_t Spawn(const std::vector<std::string>& command, uid_t user, gid_t group,
            const std::string& folder, int death_signal) {
  std::vector<char*> argv;
  for (const std::string& part : command) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  const std::string log = folder + "/log";
  const pid_t parent = getpid();
  const pid_t child = fork();
  MR_CHECK(child >= 0);
  if (child != 0) return child;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (chdir(folder.c_str()) != 0) _exit(126);
  if (user != geteuid() && (setgid(group) != 0 || setuid(user) != 0)) _exit(126);
  // After setuid, which clears it.
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(126);
  unsetenv("PGDATA");
  unsetenv("LC_ALL");
  execv(argv[0], argv.data());
  _exit(127);
}

void Await(pid_t process) {
  int status = 0;
  MR_CHECK(waitpid(process, &status, 0) == process);
  MR_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

PgTestServer& PgTestServer::Shared() {
  static PgTestServer server;
  return server;
}

PgTestServer::PgTestServer() {
  char path[] = "/tmp/millrace_pg_XXXXXX";
  MR_CHECK(mkdtemp(path) != nullptr);
  folder_ = path;
  user_ = geteuid();
  group_ = getegid();
  if (user_ == 0) {
    const passwd* other = getpwnam("postgres");
    if (other == nullptr) other = getpwnam("nobody");
    MR_CHECK(other != nullptr);
    user_ = other->pw_uid;
    group_ = other->pw_gid;
    MR_CHECK(chown(path, user_, group_) == 0);
  }
  Await(Spawn({BinFolder() + "/initdb", "-D", folder_ + "/data", "-U", "millrace", "-A", "trust",
               "-E", "UTF8", "--locale=C", "--no-sync"},
              user_, group_, folder_, SIGKILL));
  Start();
}

PgTestServer::~PgTestServer() {
  if (process_ > 0) Stop(StopMode::kImmediate);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string PgTestServer::socket() const { return folder_ + "/.s.PGSQL.5432"; }

std::string PgTestServer::Url(const std::string& database, const std::string& folder) const {
  return "host=" + (folder.empty() ? folder_ : folder) + " user=millrace dbname=" + database;
}

void PgTestServer::Start() {
  MR_CHECK(process_ < 0);
  process_ = Spawn(
      {BinFolder() + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-c",
       "listen_addresses=", "-c", "shared_buffers=32MB", "-c", "max_connections=100", "-c",
       "log_min_messages=warning", "-c", "deadlock_timeout=100ms", "-c", "max_wal_size=256MB"},
      user_, group_, folder_, SIGQUIT);
  const std::string url = Url("postgres");
  for (;;) {
    const PGPing ping = PQping(url.c_str());
    if (ping == PQPING_OK) return;
    int status = 0;
    MR_CHECK(waitpid(process_, &status, WNOHANG) == 0);  // It ended: see the folder's log.
    poll(nullptr, 0, 10);
  }
}

void PgTestServer::Stop(StopMode mode) {
  MR_CHECK(process_ > 0);
  kill(process_, mode == StopMode::kFast ? SIGINT : SIGQUIT);
  int status = 0;
  MR_CHECK(waitpid(process_, &status, 0) == process_);
  process_ = -1;
}

std::string PgTestServer::Sql(const std::string& sql, const std::string& database) const {
  const std::unique_ptr<PGconn, void (*)(PGconn*)> connection(PQconnectdb(Url(database).c_str()),
                                                              PQfinish);
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(connection.get(), sql.c_str()),
                                                              PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  const bool done = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
  if (!done) std::fprintf(stderr, "%s: %s", sql.c_str(), PQerrorMessage(connection.get()));
  MR_CHECK(done);
  return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

std::string PgTestServer::NewDatabase() {
  const std::string name = "db" + std::to_string(databases_++);
  if (databases_ == 1) {
    // Made once; each database is a copy of it.
    Sql("CREATE DATABASE prepared");
    PostgresConfig config;
    config.url = Url("prepared");
    PgCounters counters(NullMetrics());
    Result<std::unique_ptr<PgConnection>> connection = PgConnection::Connect(config, counters);
    MR_CHECK(connection.ok());
    const Result<SchemaPlan> plan = PlanSchema(**connection);
    MR_CHECK(plan.ok());
    MR_CHECK(ApplySchema(**connection, *plan).ok());
  }
  Sql("CREATE DATABASE " + name + " TEMPLATE prepared");
  return Url(name);
}

}  // namespace millrace::store
