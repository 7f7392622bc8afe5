# Sources that are compiled several times with different flags (no optimisation, wider vectors). An inline function that is not
# inlined becomes a weak symbol, and the linker keeps only one copy, from whichever object comes first. The whole program could
# then run the copy without optimisation, or one with instructions that the processor lacks. So the weak functions of each such
# object get unique names. tests/native/test_symbols.py checks the objects.
#
# Makefiles have no rule for an object of another target. So there each object is a target, which runs in every build and writes
# only what changed.
function(tmflow_add_objects_of target)
  set(renamed "${PROJECT_BINARY_DIR}/compiled_apart/${target}.o")
  set(script "${PROJECT_SOURCE_DIR}/cmake/rename_weak.cmake")
  set(rename "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DOBJCOPY=${CMAKE_OBJCOPY}" "-DINPUT=$<TARGET_OBJECTS:${target}>"
             "-DOUTPUT=${renamed}" "-DSUFFIX=${target}" -P "${script}")
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    add_custom_target(${target}_apart COMMAND ${rename} BYPRODUCTS "${renamed}" VERBATIM)
    add_dependencies(${target}_apart ${target})
    add_dependencies(tmflow_core ${target}_apart)
  else()
    add_custom_command(
      OUTPUT "${renamed}" COMMAND ${rename} COMMAND "${CMAKE_COMMAND}" -E touch "${renamed}"
      DEPENDS "$<TARGET_OBJECTS:${target}>" "${script}"
      COMMENT "Naming the weak functions of ${target}" VERBATIM)
  endif()
  set_source_files_properties("${renamed}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(tmflow_core PRIVATE "${renamed}")
endfunction()
