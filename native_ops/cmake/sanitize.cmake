# Sanitised builds: everything is compiled with the sanitizer. The tests are built, and the TensorFlow ops if they are asked
# for; the Python that loads these preloads the sanitizer's library.
if(TMFLOW_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(TMFLOW_SANITIZE STREQUAL "address")
  # A null pointer ends the program anyway, and the processors that we know take misaligned accesses: looking for both at
  # every access makes the build take half as long again.
  set(sanitize -fsanitize=address,undefined -fno-sanitize=null,alignment -fno-sanitize-recover=undefined)
else()
  message(FATAL_ERROR "TMFLOW_SANITIZE must be thread, address or empty, not '${TMFLOW_SANITIZE}'")
endif()
# Optimised a little, for the time the tests take; with assertions, and with lines but no types for the debugger.
add_compile_options(${sanitize} -g1 -O1 -UNDEBUG -fno-omit-frame-pointer)
# Bound when the program starts: to bind a function at its first call aborts the hardware transaction that it is called in.
add_link_options(${sanitize} LINKER:-z,now)
