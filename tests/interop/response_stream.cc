#include "tests/interop/response_stream.h"

#include <utility>

namespace millrace::interop {

using grpc::testing::ResponseParameters;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;

void EchoMetadata(const rpc::Metadata& received, rpc::ServerCall* call, rpc::ServerStream* stream) {
  for (const auto& [name, value] : received) {
    if (name == "x-grpc-test-echo-initial") {
      call != nullptr ? call->AddHeader(name, value) : stream->AddHeader(name, value);
    } else if (name == "x-grpc-test-echo-trailing-bin") {
      call != nullptr ? call->AddTrailer(name, value) : stream->AddTrailer(name, value);
    }
  }
}

rpc::Code AskedCode(const grpc::testing::EchoStatus& status) {
  return status.code() >= 0 && status.code() <= 16 ? static_cast<rpc::Code>(status.code())
                                                   : rpc::Code::kUnknown;
}

ResponseStream::ResponseStream(std::unique_ptr<rpc::ServerStream> stream, Kind kind,
                               exec::EventLoop& loop, OrcaReports& reports)
    : stream_(std::move(stream)), kind_(kind), loop_(loop), reports_(reports) {
  EchoMetadata(stream_->metadata(), nullptr, stream_.get());
}

ResponseStream::~ResponseStream() {
  if (owns_reports_) reports_.Release();
}

void ResponseStream::ReadNext() {
  stream_->Read([self = shared_from_this()](std::optional<std::string> message) {
    self->OnMessage(std::move(message));
  });
}

void ResponseStream::OnMessage(std::optional<std::string> message) {
  if (!message) {
    input_ended_ = true;
    PlayNext();
    return;
  }
  StreamingOutputCallRequest request;
  if (!request.ParseFromString(*message)) {
    stream_->Finish({rpc::Code::kInternal, "not a StreamingOutputCallRequest", {}});
    return;
  }
  if (request.response_status().code() != 0) {
    stream_->Finish(
        {AskedCode(request.response_status()), request.response_status().message(), {}});
    return;
  }
  for (const ResponseParameters& parameters : request.response_parameters()) {
    if (parameters.size() < 0 || parameters.size() > kPayloadBytesMax) {
      stream_->Finish({rpc::Code::kInvalidArgument, "a response of that size cannot be", {}});
      return;
    }
    // The headers must say so before the first message.
    if (parameters.compressed().value()) stream_->CompressWrites(true);
    to_play_.push_back(parameters);
  }
  if (request.has_orca_oob_report()) {
    Report(request.orca_oob_report());
  } else if (kind_ == Kind::kHalfDuplex) {
    ReadNext();
  } else {
    PlayNext();
  }
}

void ResponseStream::Report(const grpc::testing::TestOrcaReport& asked) {
  if (owns_reports_) {
    reports_.Set(asked);
    PlayNext();
    return;
  }
  reports_.Acquire([self = shared_from_this(), asked] {
    self->owns_reports_ = true;
    self->reports_.Set(asked);
    self->PlayNext();
  });
}

void ResponseStream::PlayNext() {
  if (!to_play_.empty()) {
    const Duration wait = std::chrono::microseconds(to_play_.front().interval_us());
    if (wait <= Duration::zero()) {
      WriteNext();
    } else {
      loop_.PostAt(loop_.clock().Now() + wait, [self = shared_from_this()] { self->WriteNext(); });
    }
  } else if (input_ended_ || kind_ == Kind::kOneRequest) {
    stream_->Finish({});
  } else {
    ReadNext();
  }
}

void ResponseStream::WriteNext() {
  const ResponseParameters parameters = std::move(to_play_.front());
  to_play_.pop_front();
  StreamingOutputCallResponse response;
  response.mutable_payload()->mutable_body()->assign(static_cast<std::size_t>(parameters.size()),
                                                     '\0');
  if (parameters.fill_peer_socket_address().value()) {
    response.set_peer_socket_address(std::string(stream_->peer()));
  }
  stream_->CompressWrites(parameters.compressed().value());
  stream_->Write(response.SerializeAsString(), [self = shared_from_this()](bool more) {
    if (more) self->PlayNext();
  });
}

}  // namespace millrace::interop
