# The probe of this machine: the transactional instructions are compiled with special flags, the rest once.
set(probe_sources
    src/probe/asynchronous.cc src/probe/bandwidth.cc src/probe/capacity.cc src/probe/conflicts.cc src/probe/costs.cc
    src/probe/emulated_transactor.cc src/probe/handoff.cc src/probe/machine.cc src/probe/probe.cc
    src/probe/real_transactor.cc src/probe/siblings.cc src/probe/smt_yield.cc src/probe/topology.cc
    src/probe/transactions.cc src/probe/transfers.cc src/probe/trials.cc
    src/probe/update_capacity.cc src/probe/update_times.cc)
# Two translation units, one for each of two processors, because most of the compile time goes into headers.
list(LENGTH probe_sources count)
math(EXPR half "(${count} + 1) / 2")
add_library(probe OBJECT ${probe_sources})
set_target_properties(probe PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${half})
target_include_directories(probe PRIVATE include)
# false positive of GCC 12 in the std::variant of a JSON value.
target_compile_options(probe PRIVATE -Wall -Wextra -Werror -Wno-maybe-uninitialized)
target_sources(tmflow_core PRIVATE $<TARGET_OBJECTS:probe>)
set_source_files_properties(src/json_parse.cc PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(tmflow_core PRIVATE src/probe/instructions_rtm.cc)
  set_source_files_properties(src/probe/instructions_rtm.cc PROPERTIES COMPILE_FLAGS -mrtm)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "ppc64le")
  target_sources(tmflow_core PRIVATE src/probe/instructions_power.cc)
  set_source_files_properties(src/probe/instructions_power.cc PROPERTIES COMPILE_FLAGS "-mcpu=power8 -mhtm")
else()
  target_sources(tmflow_core PRIVATE src/probe/instructions_none.cc)
endif()
