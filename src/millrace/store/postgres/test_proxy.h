#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "millrace/base/mutex.h"

namespace millrace::store {

// Stands between a client and a PostgreSQL server, both on Unix sockets, and does a chosen harm to
// the next message of a client.
//
// Thread: any.
class PgTestProxy {
 public:
  // Listens in a temporary folder of its own and connects to the server's socket.
  explicit PgTestProxy(std::string server_socket);
  ~PgTestProxy();
  PgTestProxy(const PgTestProxy&) = delete;
  PgTestProxy& operator=(const PgTestProxy&) = delete;

  // For "host=".
  [[nodiscard]] const std::string& folder() const { return folder_; }

  enum class Harm : std::uint8_t {
    kNone,
    kCutBefore,   // The message never reaches the server; the connection is cut.
    kCutAfter,    // The server answers in full, the client hears nothing; then both are cut.
    kHalfAnswer,  // As kCutAfter, but the client gets the answer without its last message.
    kSilence,     // As kCutAfter, but nothing is cut.
    kHold,        // The message waits for Release, even when its client has gone.
  };
  // The next client message that asks for something meets it; once. Opening and closing a session
  // does not count.
  void Arm(Harm harm);
  // Held messages reach the server; returns when it has answered them.
  void Release();
  // Returns when a message has met the harm that was armed last.
  void AwaitTripped();

 private:
  struct Pair {
    int client = -1;
    int server = -1;
    Harm harm = Harm::kNone;
    std::string held;    // For the server, kept back.
    std::string answer;  // Of the server, kept back.
  };

  void Loop();
  void Accept();
  bool FromClient(Pair& pair);
  bool FromServer(Pair& pair);
  void Wake();

  std::string folder_;
  const std::string server_socket_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};

  Mutex mutex_;
  CondVar changed_;
  Harm armed_ MR_GUARDED_BY(mutex_) = Harm::kNone;
  bool tripped_ MR_GUARDED_BY(mutex_) = false;
  bool release_ MR_GUARDED_BY(mutex_) = false;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<Pair>> pairs_;  // The thread's own.
  std::thread thread_;
};

}  // namespace millrace::store
