#include "millrace/base/mutation.h"

#ifdef MILLRACE_MUTATIONS

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace millrace::mutation {
namespace {

struct Described {
  const char* name;
  const char* what;
};

constexpr std::array kMutants = {
#define MR_MUTANT_ENTRY(name, what) Described{#name, what},
    MR_MUTANT_LIST(MR_MUTANT_ENTRY)
#undef MR_MUTANT_ENTRY
};

Mutant FromEnvironment() {
  const char* wanted = std::getenv("MILLRACE_MUTANT");
  if (wanted == nullptr || *wanted == '\0') return Mutant::kNone;
  for (std::size_t i = 0; i < kMutants.size(); ++i) {
    if (std::string_view(kMutants[i].name) == wanted) return static_cast<Mutant>(i + 1);
  }
  if (std::string_view(wanted) != "list") {
    std::fprintf(stderr, "MILLRACE_MUTANT: there is no mutant \"%s\"; \"list\" prints all\n",
                 wanted);
    std::_Exit(2);
  }
  for (const Described& mutant : kMutants) std::printf("%s\t%s\n", mutant.name, mutant.what);
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

const Mutant active = FromEnvironment();

}  // namespace millrace::mutation

#endif
