#include "millrace/rpc/reply_frames.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "millrace/rpc/header_fields.h"

namespace millrace::rpc {
namespace {

void SubmitTrailers(nghttp2_session* session, const CallState& call) {
  if (call.method != nullptr) call.method->CountEnd(call.reply->status.code);
  HeaderFields fields;
  fields.AddStatus(call.reply->status);
  fields.AddMetadata(call.reply->trailers);
  nghttp2_submit_trailer(session, call.stream_id, fields.data(), fields.size());
}

ssize_t ReadPlainText(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
  CallReply& reply = *static_cast<CallReply*>(source->ptr);
  const std::string& text = reply.status.message;
  const std::size_t count = std::min(room, text.size() - reply.plain_sent);
  std::memcpy(out, text.data() + reply.plain_sent, count);
  reply.plain_sent += static_cast<std::uint32_t>(count);
  if (reply.plain_sent == text.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(count);
}

}  // namespace

void SubmitTrailersOnly(nghttp2_session* session, const CallState& call,
                        std::string_view http_status, bool list_encodings) {
  if (call.method != nullptr) call.method->CountEnd(call.reply->status.code);
  HeaderFields fields;
  fields.AddStatic(":status", http_status);
  fields.AddStatic("content-type", "application/grpc");
  if (list_encodings) fields.AddStatic("grpc-accept-encoding", "identity,gzip");
  fields.AddMetadata(call.reply->headers);
  fields.AddStatus(call.reply->status);
  fields.AddMetadata(call.reply->trailers);
  nghttp2_submit_response(session, call.stream_id, fields.data(), fields.size(), nullptr);
}

void SubmitPlainText(nghttp2_session* session, CallState& call, std::string_view http_status) {
  if (call.method != nullptr) call.method->CountEnd(call.reply->status.code);
  call.reply->plain = true;
  call.reply->status.message += '\n';
  HeaderFields fields;
  fields.AddStatic(":status", http_status);
  fields.AddStatic("content-type", "text/plain");
  nghttp2_data_provider provider;
  provider.source.ptr = call.reply.get();
  provider.read_callback = ReadPlainText;
  nghttp2_submit_response(session, call.stream_id, fields.data(), fields.size(), &provider);
}

void SubmitHeadersAndData(nghttp2_session* session, CallState& call,
                          nghttp2_data_source_read_callback read_data) {
  HeaderFields fields;
  fields.AddStatic(":status", "200");
  fields.AddStatic("content-type", "application/grpc");
  if (call.reply->gzip) fields.AddStatic("grpc-encoding", "gzip");
  fields.AddMetadata(call.reply->headers);
  nghttp2_data_provider provider;
  provider.source.ptr = &call;
  provider.read_callback = read_data;
  nghttp2_submit_response(session, call.stream_id, fields.data(), fields.size(), &provider);
}

ssize_t ProduceReplyData(nghttp2_session* session, CallState& call, std::uint8_t* out,
                         std::size_t room, std::uint32_t* flags) {
  MessageWriter& writer = call.reply->writer;
  StreamOutbox* outbox = call.streaming == nullptr ? nullptr : &call.streaming->outbox;
  std::size_t produced = 0;
  while (produced < room && (writer.busy() || (outbox != nullptr && outbox->Next(&writer)))) {
    produced += writer.Produce(out + produced, room - produced);
    if (!writer.busy()) writer.Take();
  }
  if (outbox != nullptr) outbox->OnProduced(produced);
  if (call.replied && !writer.busy() && (outbox == nullptr || outbox->empty())) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(session, call);
  } else if (produced == 0) {
    call.streaming->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(produced);
}

}  // namespace millrace::rpc
