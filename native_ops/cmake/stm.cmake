# The software transactions: the update's loops once for each optimisation, the rest once.
target_sources(tmflow_core PRIVATE src/stm/runtime.cc src/stm/waiting.cc src/stm/loops.cc)

function(tmflow_add_stm_loops build)
  add_library(stm_${build} OBJECT src/stm/build.cc)
  target_include_directories(stm_${build} PRIVATE include)
  target_compile_definitions(stm_${build} PRIVATE TMFLOW_STM_LOOPS=loops_${build})
  target_compile_options(stm_${build} PRIVATE -Wall -Wextra -Werror ${ARGN})
  tmflow_add_objects_of(stm_${build})
endfunction()

# No fused multiply-add: the same bits as every kernel.
tmflow_add_stm_loops(O0 -O0 -ffp-contract=off -UNDEBUG)
tmflow_add_stm_loops(O3 ${TMFLOW_FASTEST} -ffp-contract=off)
