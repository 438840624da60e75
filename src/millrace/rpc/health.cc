#include "millrace/rpc/health.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "millrace/base/annotations.h"
#include "millrace/base/mutex.h"

namespace millrace::rpc {
namespace {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::grpc::health::v1::HealthListResponse;

std::string Serialized(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response.SerializeAsString();
}

RpcStatus Malformed() { return {Code::kInvalidArgument, "request is not a valid message", {}}; }

}  // namespace

// One Watch call, from its request on.
struct HealthService::Watcher {
  std::unique_ptr<ServerStream> stream;
  bool known = false;
  bool writing = false;
  HealthCheckResponse::ServingStatus sent = HealthCheckResponse::UNKNOWN;  // Never a state to tell.
};

struct HealthService::State : std::enable_shared_from_this<HealthService::State> {
  Mutex mutex;
  std::vector<std::string> services;  // Sorted; constant.
  bool serving MR_GUARDED_BY(mutex) = false;
  bool ended MR_GUARDED_BY(mutex) = false;
  std::list<Watcher> watchers MR_GUARDED_BY(mutex);

  [[nodiscard]] bool Knows(const std::string& service) const {
    return service.empty() || std::binary_search(services.begin(), services.end(), service);
  }
  [[nodiscard]] HealthCheckResponse::ServingStatus Current() const MR_REQUIRES(mutex) {
    return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  }

  void Check(std::unique_ptr<ServerCall> call) MR_EXCLUDES(mutex) {
    HealthCheckRequest request;
    if (!request.ParseFromArray(call->request().data(), static_cast<int>(call->request().size()))) {
      call->Finish(Malformed(), {});
    } else if (!Knows(request.service())) {
      call->Finish({Code::kNotFound, "unknown service", {}}, {});
    } else {
      std::string response;
      {
        MutexLock lock(mutex);
        response = Serialized(Current());
      }
      call->FinishOk(std::move(response));
    }
  }

  void List(std::unique_ptr<ServerCall> call) MR_EXCLUDES(mutex) {
    HealthListResponse response;
    {
      MutexLock lock(mutex);
      (*response.mutable_statuses())[""].set_status(Current());
      for (const std::string& service : services) {
        (*response.mutable_statuses())[service].set_status(Current());
      }
    }
    call->FinishOk(response.SerializeAsString());
  }

  void Watch(std::unique_ptr<ServerStream> stream) {
    ServerStream& reading = *stream;
    reading.Read([self = shared_from_this(),
                  stream = std::move(stream)](std::optional<std::string> message) mutable {
      HealthCheckRequest request;
      if (!message || !request.ParseFromString(*message)) {
        stream->Finish(Malformed());
        return;
      }
      self->AddWatcher(std::move(stream), self->Knows(request.service()));
    });
  }

  void AddWatcher(std::unique_ptr<ServerStream> stream, bool known) MR_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (ended) {
      Finish(*stream);
      return;
    }
    const auto watcher = watchers.insert(watchers.end(), Watcher{std::move(stream), known});
    watcher->stream->OnCancel([self = shared_from_this(), watcher] {
      MutexLock cancel_lock(self->mutex);
      if (self->ended) return;       // The list is gone, and the iterator with it.
      if (watcher->writing) return;  // OnWritten takes it off the list.
      watcher->stream->Finish({Code::kCancelled, {}, {}});
      self->watchers.erase(watcher);
    });
    Tell(watcher);
  }

  void Tell(std::list<Watcher>::iterator watcher) MR_REQUIRES(mutex) {
    const auto status = watcher->known ? Current() : HealthCheckResponse::SERVICE_UNKNOWN;
    if (watcher->writing || watcher->sent == status) return;
    watcher->writing = true;
    watcher->sent = status;
    watcher->stream->Write(Serialized(status), [self = shared_from_this(), watcher](bool more) {
      self->OnWritten(watcher, more);
    });
  }

  void OnWritten(std::list<Watcher>::iterator watcher, bool more) MR_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (ended) return;
    watcher->writing = false;
    if (more && !watcher->stream->cancelled()) {
      Tell(watcher);
      return;
    }
    watcher->stream->Finish({Code::kCancelled, {}, {}});
    watchers.erase(watcher);
  }

  static void Finish(ServerStream& stream) {
    stream.Finish({Code::kUnavailable, "the server is shutting down", {}});
  }
};

HealthService::HealthService(std::vector<std::string> services)
    : state_(std::make_shared<State>()) {
  std::sort(services.begin(), services.end());
  state_->services = std::move(services);
}

HealthService::~HealthService() { EndWatches(); }

void HealthService::AddTo(ServiceTable* table) {
  table->unary["/grpc.health.v1.Health/Check"] =
      [state = state_](std::unique_ptr<ServerCall> call) { state->Check(std::move(call)); };
  table->unary["/grpc.health.v1.Health/List"] = [state = state_](std::unique_ptr<ServerCall> call) {
    state->List(std::move(call));
  };
  table->streaming["/grpc.health.v1.Health/Watch"] =
      [state = state_](std::unique_ptr<ServerStream> stream) { state->Watch(std::move(stream)); };
}

void HealthService::SetServing(bool serving) {
  MutexLock lock(state_->mutex);
  state_->serving = serving;
  for (auto watcher = state_->watchers.begin(); watcher != state_->watchers.end(); ++watcher) {
    state_->Tell(watcher);
  }
}

void HealthService::EndWatches() {
  MutexLock lock(state_->mutex);
  state_->ended = true;
  for (const Watcher& watcher : state_->watchers) State::Finish(*watcher.stream);
  state_->watchers.clear();
}

}  // namespace millrace::rpc
