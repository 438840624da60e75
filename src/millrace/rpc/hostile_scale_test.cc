#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/raw_peer_test_util.h"
#include "millrace/rpc/server.h"

namespace millrace::rpc {
namespace {

constexpr const char* kEcho = "/test.Echo/Echo";
constexpr const char* kPark = "/test.Echo/Park";

// Attacks by sheer numbers. Each test ends with a proof that the server serves others.
class HostileScaleTest : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    // A Unix socket, whose ends use up no ports.
    options.listen = {"127.0.0.1:0", "unix:" + (std::filesystem::temp_directory_path() /
                                                ("millrace-scale-" + std::to_string(getpid())))
                                                   .string()};
    options.connections_max = 10'010;
    ServiceTable services;
    services.unary[kEcho] = [](std::unique_ptr<ServerCall> call) {
      call->FinishOk(std::string(call->request()));
    };
    services.unary[kPark] = [this](std::unique_ptr<ServerCall> call) {
      ServerCall& parked = *call;
      parked.OnCancel([this, call = std::move(call)] {
        call->Finish({Code::kCancelled, {}, {}}, {});
        CountParked(-1);
      });
      CountParked(1);
    };
    std::vector<exec::EventLoop*> loops;
    for (const auto& loop : loops_) loops.push_back(loop.get());
    server_ = Server::Create(loops, options, std::move(services), log_, NullMetrics());
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void TearDown() override {
    RawPeer peer(server_->addresses().front());
    peer.Send(Preface() + Request(1, kEcho, "well"));
    EXPECT_EQ(peer.ReadUntilStreamEnds(1).streams.at(1).Field("grpc-status"), "0");
    server_->Shutdown(Duration::zero());
    WaitForParked(0);
  }

  void CountParked(int change) MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    parked_ += change;
    changed_.NotifyAll();
  }
  void WaitForParked(int count) MR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (parked_ != count) changed_.Wait(mutex_);
  }

  SystemClock clock_;
  NullLog log_;
  Mutex mutex_;
  CondVar changed_;
  int parked_ MR_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<exec::EventLoop>> loops_ = [this] {
    std::vector<std::unique_ptr<exec::EventLoop>> loops;
    loops.push_back(exec::EventLoop::Create("loop-0", clock_));
    loops.push_back(exec::EventLoop::Create("loop-1", clock_));
    return loops;
  }();
  std::unique_ptr<Server> server_;
};

TEST_F(HostileScaleTest, TenThousandConnectionsWaitAndVanish) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  // Both ends are in this process.
  const auto count = static_cast<int>(std::min<rlim_t>(10'000, files.rlim_cur / 2 - 100));
  const std::string address = server_->addresses().back();
  std::vector<std::unique_ptr<RawPeer>> peers;
  peers.reserve(count);
  for (int i = 0; i < count; ++i) {
    peers.push_back(std::make_unique<RawPeer>(address));
    peers.back()->Send(Preface() + Request(1, kPark, "x"));
  }
  WaitForParked(count);
  // Others are served meanwhile.
  RawPeer peer(server_->addresses().front());
  peer.Send(Preface() + Request(1, kEcho, "well"));
  EXPECT_EQ(peer.ReadUntilStreamEnds(1).streams.at(1).Field("grpc-status"), "0");
  // Half of them without a word, half in the middle of a frame.
  for (int i = 0; i < count; ++i) {
    if (i % 2 == 0) peers[static_cast<std::size_t>(i)]->Send(std::string("\0\0\x10", 3));
    peers[static_cast<std::size_t>(i)]->Close();
  }
  WaitForParked(0);
}

TEST_F(HostileScaleTest, AHeaderBlockThatUnpacksToMegabytesIsRefused) {
  // One field of 4,000 bytes goes into the table, and each byte behind it means that field again.
  const std::string value(4'000, 'v');
  std::string block = HeaderBlock(RequestFields(kEcho));
  block += std::string("\x40\x04", 2) + "bomb";
  block += std::string("\x7f", 1) + static_cast<char>(0x80 | ((4'000 - 127) & 0x7f)) +
           static_cast<char>((4'000 - 127) >> 7) + value;
  block += std::string(11'000, '\xbe');
  for (int i = 0; i < 5; ++i) {
    RawPeer peer(server_->addresses().front());
    peer.Send(Preface() + Frame(frame::kHeaders, frame::kEndHeaders, 1, block) +
              Frame(frame::kData, frame::kEndStream, 1, GrpcMessage("x")));
    const Received& received = peer.ReadUntilStreamEnds(1);
    ASSERT_TRUE(received.streams.contains(1));
    EXPECT_EQ(received.streams.at(1).Field(":status"), "431");
  }
}

TEST_F(HostileScaleTest, WindowSizesThatFlapOverManyStreamsAreCutOff) {
  RawPeer peer(server_->addresses().front());
  peer.Send(Preface());
  for (std::uint32_t stream = 1; stream < 1'001; stream += 2) {
    peer.Send(Request(stream, kPark, "x"));
  }
  WaitForParked(500);
  const auto window = [](std::uint32_t bytes) {
    return Frame(frame::kSettings, 0, 0, std::string("\0\4", 2) + Number32(bytes));
  };
  const std::string flap = window(0) + window(0x7fffffff);
  for (int i = 0; i < 100'000; ++i) {
    if (!peer.Send(flap)) break;
  }
  EXPECT_TRUE(peer.ReadUntilClosed().closed);
  WaitForParked(0);
}

}  // namespace
}  // namespace millrace::rpc
