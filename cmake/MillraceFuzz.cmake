# millrace_fuzz(NAME name SOURCES files... [DEPS modules...] [LIBS targets...])
#
# Makes the fuzz target <name>_fuzz from a source with LLVMFuzzerTestOneInput. With MILLRACE_FUZZ (the fuzz preset,
# clang) it is a libFuzzer binary; otherwise our driver runs the seed corpus fuzz/corpus/<name> and inputs mutated
# from it, as a ctest of label fuzz.
function(millrace_fuzz)
  cmake_parse_arguments(F "" "NAME" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target ${F_NAME}_fuzz)
  add_executable(${target} ${F_SOURCES})
  target_compile_options(${target} PRIVATE ${MILLRACE_WARNINGS})
  foreach(dep IN LISTS F_DEPS)
    target_link_libraries(${target} PRIVATE millrace::${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${F_LIBS})
  if(MILLRACE_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_link_libraries(${target} PRIVATE millrace_fuzz_driver)
  add_test(NAME ${target} COMMAND ${target} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${F_NAME})
  set_tests_properties(${target} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
