# The TensorFlow ops, built against the TensorFlow of the given Python. Asking TensorFlow for its flags means importing it,
# which takes seconds, so the answer is cached until another version is installed.
if(TMFLOW_BUILD_TENSORFLOW STREQUAL "OFF")
  return()
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)

set(ask_version [[
from importlib import metadata, util
package = util.find_spec("tensorflow")
providers = [each for each in metadata.distributions() if "tensorflow" in (each.read_text("top_level.txt") or "").split()]
if package and providers:  # tensorflow-cpu, tf-nightly, ...
    print(*sorted(each.version for each in providers), package.origin, end="")
]])
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "${ask_version}" OUTPUT_VARIABLE installed COMMAND_ERROR_IS_FATAL ANY)
if(NOT installed)
  if(TMFLOW_BUILD_TENSORFLOW STREQUAL "ON")
    message(FATAL_ERROR "TMFLOW_BUILD_TENSORFLOW is ON, and ${Python_EXECUTABLE} has no TensorFlow")
  endif()
  message(STATUS "no TensorFlow: its ops are not built")
  return()
endif()
if(NOT installed STREQUAL TMFLOW_TENSORFLOW_INSTALLED)
  set(ask_flags [[
import tensorflow as tf
print(*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags(), sep=";", end="")
]])
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env TF_CPP_MIN_LOG_LEVEL=3 "${Python_EXECUTABLE}" -c "${ask_flags}"
    RESULT_VARIABLE failed OUTPUT_VARIABLE answer ERROR_VARIABLE why)
  if(failed)
    message(FATAL_ERROR "TensorFlow (${installed}) does not import:\n${why}")
  endif()
  set(TMFLOW_TENSORFLOW_FLAGS "${answer}" CACHE INTERNAL "")
  set(TMFLOW_TENSORFLOW_INSTALLED "${installed}" CACHE INTERNAL "")
endif()

# TensorFlow 2.21 says -std=c++17; its headers compile as the C++20 that the core needs.
function(tmflow_use_tensorflow target)
  foreach(flag IN LISTS TMFLOW_TENSORFLOW_FLAGS)
    if(flag MATCHES "^-I(.+)")
      target_include_directories(${target} SYSTEM PRIVATE "${CMAKE_MATCH_1}")
    elseif(flag MATCHES "^-D")
      target_compile_options(${target} PRIVATE "${flag}")
    elseif(flag MATCHES "^-[Ll]")
      target_link_options(${target} PRIVATE "${flag}")
    endif()
  endforeach()
  # TensorFlow's interface uses tsl::mutex, which it marks as deprecated.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-deprecated-declarations)
  if(TMFLOW_SANITIZE STREQUAL "address")
    # With these checks GCC 12 does not treat a comparison of a function with null as constant, as absl's headers require.
    target_compile_options(${target} PRIVATE -fno-sanitize=nonnull-attribute,returns-nonnull-attribute)
  endif()
endfunction()

# Default visibility, because TensorFlow's inline statics must be one object in all libraries.
add_library(tmflow_ops MODULE src/tensorflow/apply_ops.cc src/tensorflow/apply_dense_ops.cc
                              src/tensorflow/apply_rows_ops.cc src/tensorflow/read_ops.cc src/tensorflow/tracker_ops.cc)
if(TMFLOW_SANITIZE STREQUAL "thread")
  target_sources(tmflow_ops PRIVATE tests/relaxed_kernels.cc)  # the file explains why
  # In one translation unit with the ops, its kernels would be specialised after their first use.
  set_source_files_properties(tests/relaxed_kernels.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endif()
tmflow_use_tensorflow(tmflow_ops)
target_link_libraries(tmflow_ops PRIVATE tmflow_core)
# One translation unit, because compiling TensorFlow's headers takes far longer than compiling these sources. It names the
# sources by their paths in this folder (since CMake 4.0), so it is the same in every checkout, and the compiler cache finds it.
set_target_properties(tmflow_ops PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TMFLOW_OUTPUT_DIR}" UNITY_BUILD ON
                                            UNITY_BUILD_BATCH_SIZE 0 UNITY_BUILD_RELOCATABLE ON)
target_include_directories(tmflow_ops PRIVATE "${CMAKE_SOURCE_DIR}")

if(NOT TMFLOW_BUILD_RUNTIME)
  return()
endif()

# Preloaded into the tasks of a cluster on one machine.
add_library(tmflow_loopback MODULE src/tensorflow/loopback_bind.cc)
target_link_libraries(tmflow_loopback PRIVATE ${CMAKE_DL_LIBS})
target_compile_options(tmflow_loopback PRIVATE -Wall -Wextra -Werror)
set_target_properties(tmflow_loopback PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TMFLOW_OUTPUT_DIR}")

include(cmake/runtime.cmake)
