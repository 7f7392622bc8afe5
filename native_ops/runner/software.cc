// What was compiled into this program.
#include "commit.hpp"  // written by commit.cmake
#include "runner/facts.hpp"

namespace tmflow::runner {

Json software_facts() {
  return Json::Object{
      {"tmflow", TMFLOW_VERSION},    {"python", nullptr},
      {"tensorflow", nullptr},       {"numpy", nullptr},
      {"compiler", TMFLOW_COMPILER}, {"cflags", TMFLOW_CXX_FLAGS},
      {"git_commit", kCommit},       {"git_dirty", kDirty},
      {"lock_sha256", nullptr},  // of Python packages
  };
}

}  // namespace tmflow::runner
