#include "millrace/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::cli {
namespace {

// A descriptor that closes itself.
class ScopedFd {
 public:
  explicit ScopedFd(int fd = -1) : fd_(fd) {}
  ~ScopedFd() {
    if (fd_ >= 0) close(fd_);
  }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status SystemError(const char* what) {
  return {StatusCode::kUnavailable, std::string(what) + ": " + std::strerror(errno)};
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

int Spawn(const ChildSpec& spec, int input_fd, int stderr_fd, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input_fd, 0);
  posix_spawn_file_actions_adddup2(&files, stderr_fd, 2);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t reset;
  sigemptyset(&reset);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT}) sigaddset(&reset, signal);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::array<std::string, 3> words = {"sh", "-c", spec.command};
  std::array<char*, 4> argv = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  std::vector<char*> envp;
  envp.reserve(spec.environment.size() + 1);
  for (const std::string& entry : spec.environment)
    envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);
  const int error = posix_spawn(&pid, "/bin/sh", &files, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

ChildProcess::ChildProcess(exec::EventLoop& loop, bool pass_stderr,
                           UniqueFunction<void(ChildExit)> on_exit)
    : loop_(loop), pass_stderr_(pass_stderr), on_exit_(std::move(on_exit)) {}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(exec::EventLoop& loop,
                                                          const ChildSpec& spec,
                                                          UniqueFunction<void(ChildExit)> on_exit) {
  // A memfd holds any size, needs no writer of its own, and its reader sees the end of file.
  const ScopedFd input(memfd_create("millrace-task", MFD_CLOEXEC));
  if (input.get() < 0) return SystemError("memfd_create");
  if (!WriteAll(input.get(), spec.input)) return SystemError("write the task's payload");
  if (lseek(input.get(), 0, SEEK_SET) != 0) return SystemError("lseek");

  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("pipe2");
  ScopedFd read_end(ends[0]);
  const ScopedFd write_end(ends[1]);
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return SystemError("fcntl");

  pid_t pid = -1;
  if (const int error = Spawn(spec, input.get(), write_end.get(), pid); error != 0) {
    errno = error;
    return SystemError("start /bin/sh");
  }
  std::unique_ptr<ChildProcess> child(new ChildProcess(loop, spec.pass_stderr, std::move(on_exit)));
  child->pid_ = pid;
  child->stderr_fd_ = read_end.Release();
  child->pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (child->pid_fd_ < 0) return SystemError("pidfd_open");  // The destructor kills and reaps.

  ChildProcess* const self = child.get();
  self->pid_watch_ =
      loop.Watch(self->pid_fd_, EPOLLIN, [self](std::uint32_t) { self->OnProcessEnded(); });
  self->stderr_watch_ =
      loop.Watch(self->stderr_fd_, EPOLLIN, [self](std::uint32_t) { self->ReadStderr(); });
  return child;
}

ChildProcess::~ChildProcess() {
  CloseStderr();
  if (pid_ > 0) {
    Signal(SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  CloseProcess();
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0) kill(-pid_, signal);
}

void ChildProcess::ReadStderr() {
  std::array<char, 16384> buffer;
  for (int rounds = 0; rounds < 16 && stderr_fd_ >= 0; ++rounds) {
    const ssize_t got = read(stderr_fd_, buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) CloseStderr();
      return;
    }
    if (got == 0) {
      CloseStderr();
      return;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (pass_stderr_) (void)WriteAll(STDERR_FILENO, bytes);
    tail_.append(bytes);
    if (tail_.size() > kStderrTailBytes) tail_.erase(0, tail_.size() - kStderrTailBytes);
  }
}

void ChildProcess::CloseStderr() {
  if (stderr_watch_ != 0) loop_.Unwatch(std::exchange(stderr_watch_, 0));
  if (stderr_fd_ >= 0) close(std::exchange(stderr_fd_, -1));
}

void ChildProcess::CloseProcess() {
  if (pid_watch_ != 0) loop_.Unwatch(std::exchange(pid_watch_, 0));
  if (pid_fd_ >= 0) close(std::exchange(pid_fd_, -1));
}

void ChildProcess::OnProcessEnded() {
  int status = 0;
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return;
  MR_CHECK(reaped == pid_);
  pid_ = -1;
  // What it wrote is in the pipe by now. Others that inherited the pipe are not waited for.
  ReadStderr();
  CloseStderr();
  CloseProcess();
  ChildExit exit;
  exit.signalled = WIFSIGNALED(status);
  exit.code = exit.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  exit.stderr_tail = std::move(tail_);
  UniqueFunction<void(ChildExit)> on_exit = std::move(on_exit_);
  on_exit(std::move(exit));  // May destroy this object.
}

}  // namespace millrace::cli
