# Sanitised builds: everything is compiled with the sanitizer. The tests are built, and on request the TensorFlow ops; the
# Python process that loads them must preload the sanitizer's library.
if(TMFLOW_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
  set(optimised -O1)
elseif(TMFLOW_SANITIZE STREQUAL "address")
  # A null pointer ends the program anyway, and all processors that we use allow misaligned accesses. Checking both at every
  # access would make the build take half as long again.
  set(sanitize -fsanitize=address,undefined -fno-sanitize=null,alignment -fno-sanitize-recover=undefined)
  set(optimised -O0)
else()
  message(FATAL_ERROR "TMFLOW_SANITIZE must be thread, address or empty, not '${TMFLOW_SANITIZE}'")
endif()
# The optimisation with the shortest total time of building and running the tests; with assertions, and with line numbers but no
# types for the debugger.
set(TMFLOW_FASTEST -O1)
add_compile_options(${sanitize} -g1 ${optimised} -UNDEBUG -fno-omit-frame-pointer)
# Symbols are bound at program start: binding a function at its first call would abort a hardware transaction around that call.
add_link_options(${sanitize} LINKER:-z,now)
