# millrace_proto(NAME name PROTOS files... [DEPS proto libraries...] [ROOT folder])
#
# Generates and compiles C++ for .proto files below proto/ (or ROOT) into the library millrace_proto_<name>. Nothing
# generated enters the source tree. The descriptor set serves gRPC reflection and needs no file at run time.
find_package(Protobuf REQUIRED)

function(millrace_proto)
  cmake_parse_arguments(P "" "NAME;ROOT" "PROTOS;DEPS" ${ARGN})
  set(root ${PROJECT_SOURCE_DIR}/proto)
  if(P_ROOT)
    set(root ${P_ROOT})
  endif()
  set(out ${PROJECT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto IN LISTS P_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    add_custom_command(
      OUTPUT ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
      COMMAND protobuf::protoc -I ${root} --cpp_out=${out} ${root}/${proto}
      DEPENDS ${root}/${proto}
      VERBATIM)
    list(APPEND sources ${out}/${stem}.pb.cc)
  endforeach()
  set(target millrace_proto_${P_NAME})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  foreach(dep IN LISTS P_DEPS)
    target_link_libraries(${target} PUBLIC millrace_proto_${dep})
  endforeach()
endfunction()
