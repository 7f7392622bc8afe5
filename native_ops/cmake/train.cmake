# The native driver: the arithmetic of its models once for each vector width (src/train/dense_math.cc selects one at run time),
# and the rest once.
target_sources(tmflow_core PRIVATE src/train/dense_math.cc src/train/models.cc src/train/pinning.cc src/train/training_set.cc
                                   src/train/trial.cc)

function(tmflow_add_dense_math build vector_bytes)
  add_library(dense_math_${build} OBJECT src/train/dense_math_build.cc)
  target_include_directories(dense_math_${build} PRIVATE include)
  target_compile_definitions(
    dense_math_${build} PRIVATE TMFLOW_DENSE_MATH=dense_math_${build} TMFLOW_VECTOR_BYTES=${vector_bytes})
  # -Wpsabi warns about vectors as arguments between builds; these functions have none.
  target_compile_options(dense_math_${build} PRIVATE -Wall -Wextra -Werror -Wno-psabi ${TMFLOW_FASTEST} -ffp-contract=fast ${ARGN})
  tmflow_add_objects_of(dense_math_${build})
endfunction()

tmflow_add_dense_math(narrow 16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  tmflow_add_dense_math(avx2 32 -mavx2 -mfma)
  tmflow_add_dense_math(avx512 64 -mavx512f -mavx512vl -mfma -mprefer-vector-width=512)
endif()
