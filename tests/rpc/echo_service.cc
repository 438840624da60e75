#include "tests/rpc/echo_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::rpc {
namespace {

std::string Find(const Metadata& metadata, std::string_view name) {
  for (const auto& [key, value] : metadata) {
    if (key == name) return value;
  }
  return {};
}

std::size_t Number(std::string_view text) {
  std::size_t number = 0;
  for (const char c : text.substr(0, 9)) {
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<std::size_t>(c - '0');
  }
  return number;
}

void EchoNext(std::unique_ptr<ServerStream> stream) {
  ServerStream& reading = *stream;
  reading.Read([stream = std::move(stream)](std::optional<std::string> message) mutable {
    if (!message) {
      stream->Finish({});
      return;
    }
    ServerStream& writing = *stream;
    writing.Write(*std::move(message), [stream = std::move(stream)](bool more) mutable {
      if (more) EchoNext(std::move(stream));
    });
  });
}

void CountNext(std::unique_ptr<ServerStream> stream, std::size_t next, std::size_t end) {
  if (next == end) {
    stream->Finish({Code::kOutOfRange, "that was all", {}});
    return;
  }
  ServerStream& writing = *stream;
  writing.Write(std::to_string(next), [stream = std::move(stream), next, end](bool more) mutable {
    if (more) CountNext(std::move(stream), next + 1, end);
  });
}

}  // namespace

void EchoService::AddTo(ServiceTable* table) {
  const std::string prefix = "/millrace.test.Echo/";
  table->unary[prefix + "Unary"] = [](std::unique_ptr<ServerCall> call) {
    call->FinishOk(std::string(call->request()));
  };
  table->unary[prefix + "Metadata"] = [](std::unique_ptr<ServerCall> call) {
    for (const auto& [name, value] : call->metadata()) {
      if (!name.starts_with("x-")) continue;
      call->AddHeader(name, value);
      call->AddTrailer(name, value);
    }
    call->FinishOk(std::string(call->request()));
  };
  table->unary[prefix + "Fail"] = [](std::unique_ptr<ServerCall> call) {
    RpcStatus status;
    status.code =
        static_cast<Code>(std::clamp<std::size_t>(Number(Find(call->metadata(), "code")), 1, 16));
    status.message = std::string(call->request());
    status.details = Find(call->metadata(), "details-bin");
    call->Finish(std::move(status), {});
  };
  table->unary[prefix + "Park"] = [this](std::unique_ptr<ServerCall> call) {
    Park(std::move(call));
  };
  table->unary[prefix + "WaitCancelled"] = [this](std::unique_ptr<ServerCall> call) {
    WaitCancelled(std::move(call));
  };
  table->streaming[prefix + "Stream"] = [](std::unique_ptr<ServerStream> stream) {
    EchoNext(std::move(stream));
  };
  table->streaming[prefix + "Count"] = [](std::unique_ptr<ServerStream> stream) {
    ServerStream& reading = *stream;
    reading.Read([stream = std::move(stream)](std::optional<std::string> message) mutable {
      CountNext(std::move(stream), 0, Number(message.value_or("")));
    });
  };
  table->services.emplace_back("millrace.test.Echo");
}

void EchoService::Park(std::unique_ptr<ServerCall> call) {
  ServerCall& parked = *call;
  parked.OnCancel([this, call = std::move(call)] {
    call->Finish({Code::kCancelled, {}, {}}, {});
    OnCancelled();
  });
}

void EchoService::OnCancelled() {
  std::vector<Waiter> done;
  {
    MutexLock lock(mutex_);
    ++cancelled_;
    for (std::size_t i = 0; i < waiters_.size();) {
      if (waiters_[i].count <= cancelled_) {
        done.push_back(std::move(waiters_[i]));
        waiters_[i] = std::move(waiters_.back());
        waiters_.pop_back();
      } else {
        ++i;
      }
    }
  }
  for (Waiter& waiter : done) waiter.call->FinishOk("seen");
}

void EchoService::WaitCancelled(std::unique_ptr<ServerCall> call) {
  const std::size_t count = Number(call->request());
  {
    MutexLock lock(mutex_);
    if (cancelled_ < count) {
      waiters_.push_back(Waiter{count, std::move(call)});
      return;
    }
  }
  call->FinishOk("seen");
}

}  // namespace millrace::rpc
