# GCC's transactions, once for each optimisation; src/itm.cc selects one at run time. A build without them says why.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fgnu-tm)
check_cxx_source_compiles("int x; int main() { __transaction_atomic { ++x; } return 0; }" TMFLOW_HAS_GNU_TM)
unset(CMAKE_REQUIRED_FLAGS)

if(TMFLOW_SANITIZE)
  set(TMFLOW_ITM_ABSENT "a sanitised build has no transactions of GCC's: the sanitizers do not know libitm")
elseif(NOT TMFLOW_HAS_GNU_TM)
  set(TMFLOW_ITM_ABSENT "the compiler has no transactions (-fgnu-tm), or their library, libitm, is missing")
endif()
if(TMFLOW_ITM_ABSENT)
  target_sources(tmflow_core PRIVATE src/itm_absent.cc)
  set_source_files_properties(src/itm_absent.cc PROPERTIES COMPILE_DEFINITIONS "TMFLOW_ITM_ABSENT=\"${TMFLOW_ITM_ABSENT}\"")
  return()
endif()

foreach(optimisation O0 O3)
  add_library(itm_${optimisation} OBJECT src/itm_build.cc)
  target_include_directories(itm_${optimisation} PRIVATE include)
  target_compile_definitions(itm_${optimisation} PRIVATE TMFLOW_ITM_BUILD=build_${optimisation})
  # The product is rounded separately, as in the kernels.
  target_compile_options(itm_${optimisation} PRIVATE -Wall -Wextra -Werror -fgnu-tm -${optimisation} -ffp-contract=off)
  tmflow_add_objects_of(itm_${optimisation})
endforeach()
target_sources(tmflow_core PRIVATE src/itm.cc)
set_source_files_properties(src/itm.cc PROPERTIES COMPILE_FLAGS -Wno-attributes)  # transaction_pure, without -fgnu-tm
target_link_libraries(tmflow_core PUBLIC itm ${CMAKE_DL_LIBS})
