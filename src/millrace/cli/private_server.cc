#include "millrace/cli/private_server.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "millrace/server/config_load.h"

namespace millrace::cli {
namespace {

constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr auto kStopPatience = std::chrono::seconds(20);
constexpr auto kPollEvery = std::chrono::milliseconds(5);

}  // namespace

Status PrivateServer::Start(const std::vector<std::string>& flags) {
  MR_RETURN_IF_ERROR(folder_.Create());
  const std::string ready_file = folder_.path() + "/ready.json";
  std::vector<std::string> words = {
      "millrace",       "server",      "--listen",    "127.0.0.1:0",
      "--admin-listen", "127.0.0.1:0", "--data-dir",  folder_.path() + "/data",
      "--ready-file",   ready_file,    "--log-level", "warn"};
  words.insert(words.end(), flags.begin(), flags.end());
  // Its settings are those above, not what happens to be set around us.
  std::vector<std::string> environment;
  for (std::string& entry : server::ProcessEnvironment()) {
    if (!entry.starts_with("MILLRACE_")) environment.push_back(std::move(entry));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // A Ctrl-C is ours to pass on.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return {StatusCode::kUnavailable,
            std::string("cannot start a server: ") + std::strerror(error)};
  }
  pid_ = pid;
  return WaitUntilReady(ready_file);
}

Status PrivateServer::WaitUntilReady(const std::string& ready_file) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    std::ifstream file(ready_file);
    if (file) {
      const nlohmann::json ready = nlohmann::json::parse(file, nullptr, false);
      if (ready.is_object() && ready.contains("grpc") && ready["grpc"].is_string()) {
        address_ = ready["grpc"].get<std::string>();
        admin_address_ = ready.value("admin", "");
        return OkStatus();
      }
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return {StatusCode::kUnavailable, "the server ended before it was ready"};
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  return {StatusCode::kUnavailable, "the server was not ready in time"};
}

PrivateServer::~PrivateServer() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      return;
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

}  // namespace millrace::cli
