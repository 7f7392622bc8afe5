# Copies the object INPUT to OUTPUT, unless OUTPUT already has that content, and appends .SUFFIX to the name of every weak
# function that it defines, and to that of every group of functions (`n`: a constructor and its variants). The linker keeps one
# group of a name, so a group with an old name and new functions would leave calls of the old functions without a target: null.
execute_process(COMMAND "${NM}" --defined-only "${INPUT}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " (W|n) _Z[^\n]+" weak "${symbols}")
set(renames "")
foreach(line IN LISTS weak)
  string(SUBSTRING "${line}" 3 -1 name)
  string(APPEND renames "${name} ${name}.${SUFFIX}\n")
endforeach()
file(WRITE "${OUTPUT}.renames" "${renames}")
execute_process(
  COMMAND "${OBJCOPY}" "--redefine-syms=${OUTPUT}.renames" "${INPUT}" "${OUTPUT}.new" COMMAND_ERROR_IS_FATAL ANY)
file(COPY_FILE "${OUTPUT}.new" "${OUTPUT}" ONLY_IF_DIFFERENT)
