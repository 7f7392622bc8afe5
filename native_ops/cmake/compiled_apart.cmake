# Sources that are compiled several times with different flags (no optimisation, wider vectors). An inline function that is
# not inlined becomes a weak symbol, of which the linker keeps one, from whichever object comes first: the whole program
# could run the copy without optimisation, or one with instructions that the processor does not have. So the weak functions
# of each such object get a name of their own. tests/native/test_symbols.py checks the objects.
function(tmflow_add_objects_of target)
  set(renamed "${PROJECT_BINARY_DIR}/compiled_apart/${target}.o")
  add_custom_command(
    OUTPUT "${renamed}"
    COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DOBJCOPY=${CMAKE_OBJCOPY}" "-DINPUT=$<TARGET_OBJECTS:${target}>"
            "-DOUTPUT=${renamed}" "-DSUFFIX=${target}" -P "${PROJECT_SOURCE_DIR}/cmake/rename_weak.cmake"
    DEPENDS "$<TARGET_OBJECTS:${target}>" "${PROJECT_SOURCE_DIR}/cmake/rename_weak.cmake"
    COMMENT "Naming the weak functions of ${target}" VERBATIM)
  target_sources(tmflow_core PRIVATE "${renamed}")
endfunction()
