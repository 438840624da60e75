#include "millrace/rpc/tls_reloader.h"

#include <pthread.h>

namespace millrace::rpc {

TlsReloader::TlsReloader(TlsCredentials& credentials, Duration interval, Log& log)
    : credentials_(credentials), interval_(interval), log_(log) {}

TlsReloader::~TlsReloader() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void TlsReloader::Start() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "tls-reload");
}

void TlsReloader::CheckSoon() {
  MutexLock lock(mutex_);
  check_soon_ = true;
  changed_.NotifyAll();
}

void TlsReloader::Run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !check_soon_) {
        if (!changed_.WaitFor(mutex_, interval_)) break;
      }
      if (stopping_) return;
      check_soon_ = false;
    }
    Check();
  }
}

void TlsReloader::Check() {
  const Result<TlsCredentials::Change> change = credentials_.Refresh();
  if (!change.ok()) {
    std::string why(change.status().message());
    if (why == last_error_) return;
    last_error_ = std::move(why);
    log_.Write(LogLevel::kError, "rpc", "new certificates cannot be used; the last ones stay",
               {{"error", std::string_view(last_error_)}});
    return;
  }
  // Good files again, be they new ones or the old ones put back.
  const bool healed = !last_error_.empty();
  last_error_.clear();
  if (healed || *change == TlsCredentials::Change::kLoaded) {
    log_.Write(LogLevel::kInfo, "rpc", "certificates loaded", {});
  }
}

}  // namespace millrace::rpc
