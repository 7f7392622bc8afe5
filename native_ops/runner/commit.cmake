# Writes the state of the checkout at every build: its commit, and whether any file that can change a number is modified or new,
# as in tmflow.platform.software. A file whose content is unchanged is not rewritten. Without git, or outside a checkout, both
# are unknown.
set(commit "std::nullopt")
set(dirty "std::nullopt")
if(GIT AND EXISTS "${ROOT}/.git")  # else git would report on a surrounding repository
  execute_process(
    COMMAND "${GIT}" --no-optional-locks -C "${ROOT}" status --porcelain=v2 --branch -- native_ops src workflow
    OUTPUT_VARIABLE status RESULT_VARIABLE refused ERROR_QUIET)
  if(NOT refused)
    if(status MATCHES "# branch.oid ([0-9a-f]+)\n")
      set(commit "\"${CMAKE_MATCH_1}\"")
    endif()
    if(status MATCHES "(^|\n)[^#\n]")
      set(dirty true)
    else()
      set(dirty false)
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
#include <optional>
#include <string>

static const std::optional<std::string> kCommit = @commit@;
static const std::optional<bool> kDirty = @dirty@;
]])
