# Writes the state of the checkout, at every build: its commit, and whether what can change a number has changes or new
# files, as tmflow.platform.software tells it. A file whose content is the same is left as it is. Without git, or outside of a checkout, neither is known.
set(commit "std::nullopt")
set(dirty "std::nullopt")
if(GIT AND EXISTS "${ROOT}/.git")  # else git would answer for a repository that merely surrounds it
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
