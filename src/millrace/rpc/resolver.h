#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/socket_address.h"

namespace millrace::rpc {

// Resolves one target at a time without holding up the loop: literal addresses at once, names on a
// thread of its own.
//
// Thread: the loop's.
// Invariants: the callback runs on the loop, never inside Start, and not after destruction.
class Resolver {
 public:
  using Callback = UniqueFunction<void(Result<std::vector<SocketAddress>>)>;

  Resolver(exec::EventLoop& loop, std::string target);
  // Does not wait for a name server that is slow to answer; that thread ends by itself.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // One at a time.
  void Start(Callback done);

 private:
  struct Shared;

  exec::EventLoop& loop_;
  const std::string target_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::rpc
