#pragma once

#include <sys/types.h>

#include <string>

namespace millrace::store {

// A PostgreSQL server of the tests' own: a cluster in a temporary folder, reached by a Unix socket
// in it. Ends with this process, however that ends; as root it runs as another user, since
// PostgreSQL refuses to run as root.
//
// Thread: one at a time.
class PgTestServer {
 public:
  // The one of this test binary, started at the first call.
  static PgTestServer& Shared();

  PgTestServer();
  ~PgTestServer();
  PgTestServer(const PgTestServer&) = delete;
  PgTestServer& operator=(const PgTestServer&) = delete;

  // Makes a database with the schema in it and returns its connection string.
  std::string NewDatabase();
  // Connection string of that database by another folder's socket (a proxy's).
  [[nodiscard]] std::string Url(const std::string& database, const std::string& folder = "") const;
  // Path of the server's socket.
  [[nodiscard]] std::string socket() const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Fast: sessions are ended and everything is written. Immediate: as if the machine had stopped.
  enum class StopMode { kFast, kImmediate };
  void Stop(StopMode mode);
  // Returns when it takes connections.
  void Start();
  // Runs SQL in the database "postgres", or the one given; the first column of the first row.
  std::string Sql(const std::string& sql, const std::string& database = "postgres") const;

 private:
  std::string folder_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t process_ = -1;
  int databases_ = 0;
};

}  // namespace millrace::store
