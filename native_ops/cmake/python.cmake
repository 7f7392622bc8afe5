# The Python module _core, with nanobind from the interpreter's environment.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

# It is for exactly this version of Python. By default nanobind would compile for size (-Os, after our flags), also the
# strategies, whose speed is measured here.
nanobind_add_module(_core NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS src/python/module.cc src/python/bench.cc src/python/probe.cc
                    src/python/region.cc src/python/train.cc)
target_link_libraries(_core PRIVATE tmflow_core)

# nanobind's sources compile in half the time as one translation unit (it ships nb_combined.cpp for this).
set_target_properties(nanobind-static PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)

# Only the benchmark compares with TensorFlow's own mutex.
find_package(absl QUIET CONFIG)  # Debian: libabsl-dev
if(absl_FOUND)
  target_sources(_core PRIVATE src/python/absl_loop.cc)
  target_link_libraries(_core PRIVATE absl::synchronization)
else()
  message(STATUS "no absl::Mutex for the benchmark: libabsl-dev is not there")
  target_sources(_core PRIVATE src/python/absl_absent.cc)
endif()

target_compile_options(_core PRIVATE -Wall -Wextra -Werror)
target_compile_definitions(_core PRIVATE ${TMFLOW_BUILT_WITH})
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TMFLOW_OUTPUT_DIR}")
