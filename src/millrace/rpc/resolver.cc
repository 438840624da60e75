#include "millrace/rpc/resolver.h"

#include <thread>
#include <utility>

#include "millrace/base/annotations.h"
#include "millrace/base/check.h"
#include "millrace/base/mutex.h"

namespace millrace::rpc {

struct Resolver::Shared {
  Mutex mutex;
  exec::EventLoop* loop MR_GUARDED_BY(mutex);  // Null once the resolver is gone.
  Callback done;                               // The loop's.

  explicit Shared(exec::EventLoop* l) : loop(l) {}

  static void Answer(const std::shared_ptr<Shared>& shared,
                     Result<std::vector<SocketAddress>> result) MR_EXCLUDES(shared->mutex) {
    MutexLock lock(shared->mutex);
    if (shared->loop == nullptr) return;
    shared->loop->Post([shared, result = std::move(result)]() mutable {
      Callback done = std::move(shared->done);
      if (done) done(std::move(result));
    });
  }
};

Resolver::Resolver(exec::EventLoop& loop, std::string target)
    : loop_(loop), target_(std::move(target)), shared_(std::make_shared<Shared>(&loop)) {}

Resolver::~Resolver() {
  MutexLock lock(shared_->mutex);
  shared_->loop = nullptr;
  shared_->done = nullptr;
}

void Resolver::Start(Callback done) {
  MR_CHECK(loop_.InLoopThread() && !shared_->done);
  shared_->done = std::move(done);
  if (IsLiteralAddress(target_)) {
    Shared::Answer(shared_, Resolve(target_));
    return;
  }
  std::thread([shared = shared_, target = target_] {
    Shared::Answer(shared, Resolve(target));
  }).detach();
}

}  // namespace millrace::rpc
