#pragma once

#include <string>
#include <string_view>

#include "millrace/base/random.h"

namespace millrace::temporal {

// A random UUID (version 4) in its usual text form.
std::string NewUuid(Random& random);

// 36 characters of lower-case hexadecimal digits and dashes.
bool IsUuid(std::string_view text);

}  // namespace millrace::temporal
