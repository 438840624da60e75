# Language level, warnings, sanitizers and linker: the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(MILLRACE_WERROR "Treat warnings as errors (CI does)" OFF)
option(MILLRACE_MUTATIONS "Deliberate bugs that MILLRACE_MUTANT switches on, for scripts/mutation" OFF)
set(MILLRACE_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MILLRACE_CCACHE})
endif()

# mold links several times faster than the default linker; without it the default does.
find_program(MILLRACE_MOLD mold)
if(MILLRACE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(MILLRACE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 uses what it has deprecated itself, and clang says so.
  list(APPEND MILLRACE_WARNINGS -Wthread-safety -Werror=thread-safety -Wno-deprecated-declarations)
else()
  # gcc 12 reports false positives for these two inside the standard library at -O2.
  list(APPEND MILLRACE_WARNINGS -Wno-maybe-uninitialized -Wno-restrict)
endif()
if(MILLRACE_WERROR)
  list(APPEND MILLRACE_WARNINGS -Werror)
endif()

option(MILLRACE_FUZZ "Build fuzz targets for libFuzzer (clang only)" OFF)
if(MILLRACE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(MILLRACE_MUTATIONS)
  add_compile_definitions(MILLRACE_MUTATIONS)
endif()

if(MILLRACE_SANITIZE)
  add_compile_options(-fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MILLRACE_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
