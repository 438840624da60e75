// Runs a fuzz target without libFuzzer: every file of the seed corpus, then inputs mutated from
// them, as many with a fixed seed (the same on every machine) as with a fresh one.
//
//   X_fuzz [--inputs N] [--seed S] [FILE | FOLDER]...
//
// With --seed only that seed runs. An input that ends the process is left in crash-X_fuzz in the
// working folder; running the target with that file repeats it.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "fuzz_input.h"
#include "millrace/base/random.h"

// The sanitizers' hook, where there are any.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

constexpr std::uint64_t kFixedSeed = 1;
constexpr std::size_t kInputBytesMax = 4096;
// An input that takes longer hangs.
constexpr unsigned kSecondsMax = 100;

std::string current_input;
char crash_file[256];

// Signal-safe.
void KeepInput() {
  const int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const ssize_t written = write(fd, current_input.data(), current_input.size());
  constexpr char kSaid[] = "\nthe input is in ";
  if (written >= 0 && write(STDERR_FILENO, kSaid, sizeof(kSaid) - 1) > 0 &&
      write(STDERR_FILENO, crash_file, std::strlen(crash_file)) > 0) {
    (void)!write(STDERR_FILENO, "\n", 1);
  }
  close(fd);
}

void OnFatalSignal(int number) {
  KeepInput();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void RunOne(std::string input) {
  current_input = std::move(input);
  alarm(kSecondsMax);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()),
                         current_input.size());
}

std::vector<std::string> ReadCorpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      std::exit(2);
    }
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string Next() {
    std::string input = Pick();
    const std::uint64_t changes = 1 + random_.Below(6);
    for (std::uint64_t i = 0; i < changes; ++i) Change(input);
    input.resize(std::min(input.size(), kInputBytesMax));
    return input;
  }

 private:
  std::string Pick() {
    return corpus_.empty() ? std::string() : corpus_[random_.Below(corpus_.size())];
  }
  std::size_t At(const std::string& input) { return random_.Below(input.size() + 1); }

  void Change(std::string& input) {
    switch (random_.Below(8)) {
      case 0:
        if (!input.empty()) {
          char& byte = input[random_.Below(input.size())];
          byte = static_cast<char>(byte ^ (1 << random_.Below(8)));
        }
        return;
      case 1:
        if (!input.empty()) input[random_.Below(input.size())] = static_cast<char>(random_.Next());
        return;
      case 2: {
        std::string some(1 + random_.Below(8), '\0');
        for (char& byte : some) byte = static_cast<char>(random_.Next());
        input.insert(At(input), some);
        return;
      }
      case 3:
        if (!input.empty()) input.erase(random_.Below(input.size()), 1 + random_.Below(8));
        return;
      case 4:
        input.resize(At(input));
        return;
      case 5: {  // A piece again, somewhere else.
        const std::string piece = input.substr(At(input), 1 + random_.Below(32));
        input.insert(At(input), piece);
        return;
      }
      case 6: {  // The end of another one.
        const std::string other = Pick();
        input.resize(At(input));
        input += other.substr(At(other));
        return;
      }
      default: {
        constexpr unsigned char kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        const auto edge = static_cast<char>(kEdges[random_.Below(std::size(kEdges))]);
        const std::size_t from = At(input);
        const std::size_t count = std::min<std::size_t>(1 + random_.Below(9), input.size() - from);
        std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(from), count, edge);
        return;
      }
    }
  }

  const std::vector<std::string>& corpus_;
  millrace::SeededRandom random_;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t inputs = 8'000;
  std::optional<std::uint64_t> only_seed;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--inputs" && i + 1 < argc) {
      inputs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      only_seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      paths.emplace_back(argument);
    }
  }
  const std::string name = std::filesystem::path(argv[0]).filename();
  std::snprintf(crash_file, sizeof(crash_file), "crash-%s", name.c_str());
  if (&__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(&KeepInput);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(number, &OnFatalSignal);
  }

  const std::vector<std::string> corpus = ReadCorpus(paths);
  RunOne({});
  for (const std::string& input : corpus) RunOne(input);
  millrace::SystemRandom system;
  const std::vector<std::uint64_t> seeds =
      only_seed ? std::vector{*only_seed} : std::vector{kFixedSeed, system.Next()};
  for (const std::uint64_t seed : seeds) {
    std::printf("%s: %zu seed inputs, %" PRIu64 " mutated, --seed %" PRIu64 "\n", name.c_str(),
                corpus.size(), inputs, seed);
    std::fflush(stdout);
    Mutator mutator(corpus, seed);
    for (std::uint64_t i = 0; i < inputs; ++i) RunOne(mutator.Next());
  }
  return 0;
}
