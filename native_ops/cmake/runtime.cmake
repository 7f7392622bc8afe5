# The executors and transports. They use internal headers of TensorFlow, so the library is for exactly the version that it is
# built with, and is apart from the ops, which need not be.
string(REGEX MATCH "^[^ ]+" tensorflow_version "${TMFLOW_TENSORFLOW_INSTALLED}")

file(GLOB distributed CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" runtime/distributed/*.cc runtime/transport/*.cc)
add_library(tmflow_runtime MODULE runtime/runtime.cc runtime/step_base.cc runtime/schedulers/std_pool.cc
                                  runtime/schedulers/pool_threads.cc ${distributed})
tmflow_use_tensorflow(tmflow_runtime)
target_compile_definitions(tmflow_runtime PRIVATE TMFLOW_TENSORFLOW_VERSION="${tensorflow_version}")
# TensorFlow's servers are in this library of it, which its flags leave out.
target_link_libraries(tmflow_runtime PRIVATE Threads::Threads -l:libtensorflow_cc.so.2)
# One translation unit, as with the ops: compiling TensorFlow's headers takes longer than compiling these sources.
set_target_properties(tmflow_runtime PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TMFLOW_OUTPUT_DIR}" UNITY_BUILD ON
                                                UNITY_BUILD_BATCH_SIZE 0 UNITY_BUILD_RELOCATABLE ON)
target_include_directories(tmflow_runtime PRIVATE "${CMAKE_SOURCE_DIR}" runtime runtime/schedulers
                                                  runtime/distributed runtime/transport)

if(TMFLOW_SANITIZE)
  # TensorFlow is compiled without sanitizers, and absl's containers have another layout with one. So the headers must not
  # know of it. Neither oneTBB nor HPX is compiled with one.
  target_compile_options(tmflow_runtime PRIVATE -U__SANITIZE_ADDRESS__)
  return()
endif()

find_package(TBB QUIET)
if(TBB_FOUND)
  target_sources(tmflow_runtime PRIVATE runtime/schedulers/tbb_arena.cc)
  target_compile_definitions(tmflow_runtime PRIVATE TMFLOW_HAS_TBB)
  target_link_libraries(tmflow_runtime PRIVATE TBB::tbb)
else()
  message(STATUS "no oneTBB: the executor tbb is not built")
endif()

# HPX, which `make hpx` builds, or another one of CMAKE_PREFIX_PATH.
find_package(HPX 1.11 QUIET PATHS "${CMAKE_SOURCE_DIR}/../.hpx")
if(HPX_FOUND)
  file(GLOB with_hpx CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" runtime/hpx/*.cc)
  list(APPEND with_hpx runtime/schedulers/hpx_tasks.cc)
  target_sources(tmflow_runtime PRIVATE ${with_hpx})
  # Apart from the unit of the others: its headers are as large as TensorFlow's, and both define macros.
  set_source_files_properties(${with_hpx} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_compile_definitions(tmflow_runtime PRIVATE TMFLOW_HAS_HPX)
  target_link_libraries(tmflow_runtime PRIVATE HPX::hpx)
else()
  message(STATUS "no HPX: its executors and its transport are not built")
endif()
