#include "millrace/server/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace millrace::server {
namespace {

// Insertions, deletions, replacements and swaps of neighbours, each costing one.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string NearestName(std::string_view word, std::span<const std::string_view> candidates) {
  std::size_t best = std::max<std::size_t>(word.size() / 3, 2) + 1;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const std::string_view tail = candidate.substr(candidate.rfind('.') + 1);
    const std::size_t distance =
        tail == word && tail != candidate ? 1 : EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return std::string(found);
}

}  // namespace millrace::server
