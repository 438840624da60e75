#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/mutex.h"
#include "millrace/base/status.h"
#include "millrace/rpc/tls_context.h"
#include "millrace/rpc/tls_options.h"

namespace millrace::rpc {

// A TLS context made of files, and made anew when they have changed.
//
// Thread: Current from any, Refresh from one at a time; Refresh reads files.
// Fails: while the files make no sense together (one of them not replaced yet, say) the last good
// context stays current.
class TlsCredentials {
 public:
  explicit TlsCredentials(const TlsServerOptions& options);
  explicit TlsCredentials(const TlsClientOptions& options);

  enum class Change : std::uint8_t { kNone, kLoaded };
  // Looks at the files; reads them if one is another than last time, or if they were no good then.
  Result<Change> Refresh() MR_EXCLUDES(mutex_);
  // Null before the first successful Refresh.
  [[nodiscard]] TlsContext Current() const MR_EXCLUDES(mutex_);

 private:
  // Enough of a file's attributes to tell that it was replaced or written.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  static std::vector<Stamp> StampsOf(const std::vector<std::string>& files);

  const std::function<Result<TlsContext>()> make_;
  std::vector<std::string> files_;
  std::vector<Stamp> loaded_;  // As they were just before they were read.
  mutable Mutex mutex_;
  TlsContext current_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::rpc
