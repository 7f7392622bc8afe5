// A campaign: one pass of the study on one machine, possibly interrupted and resumed. It is stored beside the
// run files of its scale, as in src/tmflow/study/campaign.py.
#pragma once

#include <filesystem>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// An invocation that has something to measure. It continues the unfinished campaign of the same machine, if
// there is one.
class Campaign {
 public:
  // Continues this machine's unfinished campaign in <results>/runs/<scale>, or begins a new one. Records that
  // an invocation began.
  Campaign(const std::filesystem::path& results, const std::string& scale);

  // The reference to the campaign that its runs carry.
  Json ref() const;

  // Records the end of the invocation, and whether every round is measured.
  void end(bool finished);

 private:
  void save() const;

  const std::filesystem::path path_;
  Json record_;
};

}  // namespace tmflow::runner
