// The campaign: one invocation of the study on one machine, resumed or not. As src/tmflow/study/campaign.py
// keeps it, beside the run files of its scale.
#pragma once

#include <filesystem>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// An invocation that has something to measure. While a campaign is unfinished, the next invocation on the
// same machine goes on with it.
class Campaign {
 public:
  // Goes on with this machine's unfinished campaign in <results>/runs/<scale>, else begins a new one; notes
  // that an invocation began.
  Campaign(const std::filesystem::path& results, const std::string& scale);

  // What its runs say of it.
  Json ref() const;

  // Notes the end of the invocation, and whether every round is measured.
  void end(bool finished);

 private:
  void save() const;

  const std::filesystem::path path_;
  Json its_;
};

}  // namespace tmflow::runner
