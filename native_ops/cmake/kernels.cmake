# The kernels, once for each optimisation and vector width; src/kernels.cc selects one at run time.
# Without Eigen its kernel is missing; a request for it reports that.
find_package(Eigen3 3.4 QUIET NO_MODULE)  # Debian: libeigen3-dev
if(NOT Eigen3_FOUND)
  message(STATUS "no Eigen: the kernel eigen is not built")
endif()

# No fused multiply-add: all machines compute the same bits (see kernel.hpp). A square root that may set errno is a call, which no
# compiler vectorises.
set(TMFLOW_KERNEL_FLAGS -O3 -ffp-contract=off -fno-math-errno)

function(tmflow_add_kernels build)
  add_library(kernels_${build} OBJECT src/kernel_build.cc)
  target_include_directories(kernels_${build} PRIVATE include)
  target_compile_definitions(kernels_${build} PRIVATE TMFLOW_KERNELS=kernels_${build})
  if(Eigen3_FOUND)
    target_include_directories(kernels_${build} SYSTEM PRIVATE ${EIGEN3_INCLUDE_DIRS})
    target_compile_definitions(kernels_${build} PRIVATE TMFLOW_HAS_EIGEN Eigen=Eigen_${build})
  endif()
  target_compile_options(kernels_${build} PRIVATE -Wall -Wextra -Werror ${ARGN})
  tmflow_add_objects_of(kernels_${build})
endfunction()

# As `bazel -c dbg` compiles: no optimisation, with assertions.
tmflow_add_kernels(O0 -O0 -ffp-contract=off -UNDEBUG)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # vzeroupper aborts a transaction, and compilers put one at the end of every function that uses wide vectors.
  list(APPEND TMFLOW_KERNEL_FLAGS -mno-vzeroupper)
  tmflow_add_kernels(O3_avx2 ${TMFLOW_KERNEL_FLAGS} -mavx2)
  tmflow_add_kernels(O3_avx512 ${TMFLOW_KERNEL_FLAGS} -mavx512f -mfma)  # Eigen has no AVX-512 without FMA
endif()
tmflow_add_kernels(O3 ${TMFLOW_KERNEL_FLAGS})
list(JOIN TMFLOW_KERNEL_FLAGS " " TMFLOW_KERNEL_FLAGS)
