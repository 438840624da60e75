#pragma once

#include <string>
#include <thread>

#include "millrace/base/annotations.h"
#include "millrace/base/log.h"
#include "millrace/base/mutex.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/rpc/tls_credentials.h"

namespace millrace::rpc {

// Keeps a server's credentials as its files are, from a thread of its own, since a file may be slow
// to read. What goes wrong is logged when it changes, not every time.
//
// Thread: construction, Start and destruction from one; CheckSoon from any.
class TlsReloader {
 public:
  TlsReloader(TlsCredentials& credentials, Duration interval, Log& log);
  ~TlsReloader();
  TlsReloader(const TlsReloader&) = delete;
  TlsReloader& operator=(const TlsReloader&) = delete;

  void Start();
  // Looks at the files without waiting for the interval to pass.
  void CheckSoon() MR_EXCLUDES(mutex_);

 private:
  void Run() MR_EXCLUDES(mutex_);
  void Check();

  TlsCredentials& credentials_;
  const Duration interval_;
  Log& log_;
  std::string last_error_;  // The thread's; empty while all is well.
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;
  bool check_soon_ MR_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace::rpc
