#include "millrace/rpc/raw_peer_test_util.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "millrace/base/check.h"
#include "millrace/rpc/message_reader.h"
#include "millrace/rpc/socket_address.h"

namespace millrace::rpc {
namespace {

constexpr int kPatienceMs = 15'000;
constexpr std::string_view kMagic = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::uint32_t ReadNumber32(std::string_view bytes) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = (number << 8) | static_cast<unsigned char>(bytes[i]);
  return number;
}

// HPACK integer with a 7-bit prefix.
void AppendLength(std::size_t length, std::string* out) {
  if (length < 127) {
    out->push_back(static_cast<char>(length));
    return;
  }
  out->push_back(127);
  length -= 127;
  while (length >= 128) {
    out->push_back(static_cast<char>(128 + length % 128));
    length /= 128;
  }
  out->push_back(static_cast<char>(length));
}

}  // namespace

std::string Number32(std::uint32_t number) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
  return out;
}

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string out = Number32(static_cast<std::uint32_t>(payload.size())).substr(1);
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  return out + Number32(stream) + std::string(payload);
}

std::string HeaderBlock(const Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out.push_back(0);
    AppendLength(name.size(), &out);
    out += name;
    AppendLength(value.size(), &out);
    out += value;
  }
  return out;
}

std::string Preface() { return std::string(kMagic) + Frame(frame::kSettings, 0, 0, ""); }

Fields RequestFields(const std::string& path, const Fields& more) {
  Fields fields = {{":method", "POST"}, {":scheme", "http"},
                   {":path", path},     {":authority", "test"},
                   {"te", "trailers"},  {"content-type", "application/grpc"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::string GrpcMessage(std::string_view message, char flag) {
  char prefix[kMessagePrefixBytes];
  WriteMessagePrefix(message.size(), prefix);
  prefix[0] = flag;
  return std::string(prefix, kMessagePrefixBytes) + std::string(message);
}

std::string Request(std::uint32_t stream, const std::string& path, std::string_view message,
                    const Fields& more) {
  return Frame(frame::kHeaders, frame::kEndHeaders, stream,
               HeaderBlock(RequestFields(path, more))) +
         Frame(frame::kData, frame::kEndStream, stream, GrpcMessage(message));
}

std::string Received::Stream::Field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "(none)";
}

RawPeer::RawPeer(const std::string& address) {
  const SocketAddress to = Resolve(address).value().front();
  fd_ = socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  MR_CHECK(fd_ >= 0);
  MR_CHECK(connect(fd_, to.raw(), to.length) == 0);
  nghttp2_hd_inflater* inflater = nullptr;
  MR_CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
  inflater_ = inflater;
}

RawPeer::RawPeer(int fd) : fd_(fd), skip_magic_(true) {
  nghttp2_hd_inflater* inflater = nullptr;
  MR_CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
  inflater_ = inflater;
}

RawPeer::~RawPeer() {
  Close();
  nghttp2_hd_inflate_del(static_cast<nghttp2_hd_inflater*>(inflater_));
}

void RawPeer::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void RawPeer::FinishSending() { shutdown(fd_, SHUT_WR); }

bool RawPeer::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN) return false;
    // Whatever comes in is read meanwhile, so that two full pipes do not wait for each other.
    pollfd wait{fd_, POLLIN | POLLOUT, 0};
    MR_CHECK(poll(&wait, 1, kPatienceMs) == 1);
    if ((wait.revents & POLLIN) != 0) ReadSome();
    if (received_.closed) return false;
  }
  return true;
}

const Received& RawPeer::ReadUntilStreamEnds(std::uint32_t stream) {
  return ReadUntil([stream](const Received& received) {
    const auto it = received.streams.find(stream);
    return it != received.streams.end() && (it->second.ended || it->second.reset);
  });
}

const Received& RawPeer::ReadUntilClosed() {
  return ReadUntil([](const Received&) { return false; });
}

void RawPeer::ReadSome() {
  pollfd wait{fd_, POLLIN, 0};
  MR_CHECK(poll(&wait, 1, kPatienceMs) == 1);
  char bytes[65536];
  const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
  if (n <= 0) {
    received_.closed = true;
    return;
  }
  buffer_.append(bytes, static_cast<std::size_t>(n));
  ParseFrames();
}

void RawPeer::ParseFrames() {
  if (skip_magic_) {
    if (buffer_.size() < kMagic.size()) return;
    buffer_.erase(0, kMagic.size());
    skip_magic_ = false;
  }
  std::size_t at = 0;
  while (buffer_.size() - at >= 9) {
    const std::string_view head = std::string_view(buffer_).substr(at);
    const std::size_t length = ReadNumber32(head) >> 8;
    if (head.size() < 9 + length) break;
    OnFrame(static_cast<std::uint8_t>(head[3]), static_cast<std::uint8_t>(head[4]),
            ReadNumber32(head.substr(5)), head.substr(9, length));
    at += 9 + length;
  }
  buffer_.erase(0, at);
}

void RawPeer::OnFrame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                      std::string_view payload) {
  switch (type) {
    case frame::kData:
      received_.streams[stream].data += payload;
      if ((flags & frame::kEndStream) != 0) received_.streams[stream].ended = true;
      break;
    case frame::kHeaders: {
      MR_CHECK((flags & frame::kEndHeaders) != 0);
      const auto* in = reinterpret_cast<const std::uint8_t*>(payload.data());
      std::size_t left = payload.size();
      auto* inflater = static_cast<nghttp2_hd_inflater*>(inflater_);
      for (;;) {
        nghttp2_nv field;
        int inflate_flags = 0;
        const ssize_t used = nghttp2_hd_inflate_hd2(inflater, &field, &inflate_flags, in, left, 1);
        MR_CHECK(used >= 0);
        in += used;
        left -= static_cast<std::size_t>(used);
        if ((inflate_flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
          received_.streams[stream].fields.emplace_back(
              std::string(reinterpret_cast<char*>(field.name), field.namelen),
              std::string(reinterpret_cast<char*>(field.value), field.valuelen));
        }
        if ((inflate_flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
      }
      nghttp2_hd_inflate_end_headers(inflater);
      if ((flags & frame::kEndStream) != 0) received_.streams[stream].ended = true;
      break;
    }
    case frame::kReset:
      received_.streams[stream].reset = true;
      received_.streams[stream].reset_code = ReadNumber32(payload);
      break;
    case frame::kSettings:
      if ((flags & frame::kAck) == 0) ++received_.settings;
      break;
    case frame::kPing:
      ++((flags & frame::kAck) != 0 ? received_.ping_acks : received_.pings);
      if ((flags & frame::kAck) == 0) received_.last_ping = payload;
      break;
    case frame::kGoAway:
      received_.go_away = true;
      received_.go_away_last_stream = ReadNumber32(payload);
      received_.go_away_code = ReadNumber32(payload.substr(4));
      received_.go_away_text += payload.substr(8);
      break;
    default:
      break;
  }
}

RawListener::RawListener() {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  MR_CHECK(fd_ >= 0);
  const SocketAddress any = Resolve("127.0.0.1:0").value().front();
  MR_CHECK(bind(fd_, any.raw(), any.length) == 0);
  MR_CHECK(listen(fd_, 16) == 0);
  address_ = LocalAddress(fd_).ToString();
}

RawListener::~RawListener() { close(fd_); }

int RawListener::Accept() {
  pollfd wait{fd_, POLLIN, 0};
  MR_CHECK(poll(&wait, 1, kPatienceMs) == 1);
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  MR_CHECK(fd >= 0);
  return fd;
}

}  // namespace millrace::rpc
