# Every strategy, in the order in which they are listed: its file in include/tmflow/strategies, and the struct in it. Each is
# compiled in a separate source file, which is generated here. So a change of one strategy recompiles only that strategy (and
# `adaptive`, which includes the strategies that it chooses among).
set(TMFLOW_STRATEGIES "")
function(tmflow_add_strategy name struct)
  list(APPEND TMFLOW_STRATEGIES ${name})
  set(TMFLOW_STRATEGIES "${TMFLOW_STRATEGIES}" PARENT_SCOPE)
  configure_file(cmake/strategy.cc.in "${PROJECT_BINARY_DIR}/strategies/${name}.cc" @ONLY)
  target_sources(tmflow_core PRIVATE "${PROJECT_BINARY_DIR}/strategies/${name}.cc")
endfunction()

tmflow_add_strategy(lock Lock)
tmflow_add_strategy(nolock NoLock)
tmflow_add_strategy(lock_pthread LockPthread)
tmflow_add_strategy(spin Spin)
tmflow_add_strategy(spin_then_mutex SpinThenMutex)
tmflow_add_strategy(htm Htm)
tmflow_add_strategy(htm_if_fits HtmIfFits)
tmflow_add_strategy(itm Itm)
tmflow_add_strategy(stm Stm)
tmflow_add_strategy(tle Tle)
tmflow_add_strategy(striped Striped)
tmflow_add_strategy(combining Combining)
tmflow_add_strategy(atomic Atomic)
tmflow_add_strategy(block_stm BlockStm)
tmflow_add_strategy(leashed Leashed)
tmflow_add_strategy(adaptive Adaptive)

# Every file must be in the list above.
file(GLOB headers CONFIGURE_DEPENDS include/tmflow/strategies/*.hpp)
foreach(header IN LISTS headers)
  cmake_path(GET header STEM name)
  if(NOT name IN_LIST TMFLOW_STRATEGIES)
    message(FATAL_ERROR "strategies/${name}.hpp is not in the list of cmake/strategies.cmake: "
                        "add the line tmflow_add_strategy(${name} NAME_OF_ITS_STRUCT)")
  endif()
endforeach()

list(TRANSFORM TMFLOW_STRATEGIES PREPEND strategy_ OUTPUT_VARIABLE objects)
list(TRANSFORM objects PREPEND "&" OUTPUT_VARIABLE addresses)
list(JOIN objects ", " objects)
list(JOIN addresses ", " addresses)
configure_file(cmake/registered_strategies.cc.in "${PROJECT_BINARY_DIR}/strategies/registered_strategies.cc" @ONLY)
target_sources(tmflow_core PRIVATE src/registry.cc "${PROJECT_BINARY_DIR}/strategies/registered_strategies.cc")
