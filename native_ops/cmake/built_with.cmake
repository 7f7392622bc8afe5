# The compiler and flags that the runs record for the build.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} ${TMFLOW_KERNEL_FLAGS}" flags)
set(TMFLOW_BUILT_WITH TMFLOW_COMPILER="${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" TMFLOW_CXX_FLAGS="${flags}")
