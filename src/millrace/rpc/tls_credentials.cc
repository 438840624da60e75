#include "millrace/rpc/tls_credentials.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace millrace::rpc {
namespace {

std::vector<std::string> Named(std::vector<std::string> files) {
  std::erase_if(files, [](const std::string& file) { return file.empty(); });
  return files;
}

std::int64_t Nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

TlsCredentials::TlsCredentials(const TlsServerOptions& options)
    : make_([options] { return MakeServerTlsContext(options); }),
      files_(Named({options.cert_file, options.key_file, options.client_ca_file})) {}

TlsCredentials::TlsCredentials(const TlsClientOptions& options)
    : make_([options] { return MakeClientTlsContext(options); }),
      files_(Named({options.ca_file, options.cert_file, options.key_file})) {}

std::vector<TlsCredentials::Stamp> TlsCredentials::StampsOf(const std::vector<std::string>& files) {
  std::vector<Stamp> stamps;
  for (const std::string& file : files) {
    struct stat info{};
    Stamp& stamp = stamps.emplace_back();
    if (stat(file.c_str(), &info) != 0) continue;
    stamp = {info.st_dev, info.st_ino, info.st_size, Nanoseconds(info.st_mtim),
             Nanoseconds(info.st_ctim)};
  }
  return stamps;
}

Result<TlsCredentials::Change> TlsCredentials::Refresh() {
  std::vector<Stamp> stamps = StampsOf(files_);
  if (Current() != nullptr && stamps == loaded_) return Change::kNone;
  Result<TlsContext> made = make_();
  if (!made.ok()) return made.status();
  loaded_ = std::move(stamps);
  MutexLock lock(mutex_);
  current_ = std::move(made).value();
  return Change::kLoaded;
}

TlsContext TlsCredentials::Current() const {
  MutexLock lock(mutex_);
  return current_;
}

}  // namespace millrace::rpc
