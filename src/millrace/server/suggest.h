#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace::server {

// The candidate a person most likely meant by `word`, or empty when none is near enough to be worth
// saying. A word that equals the part of a candidate after its last dot is near.
std::string NearestName(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace millrace::server
