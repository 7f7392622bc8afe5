// The names that members of a bundle may have: as src/tmflow/bundle/format.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tmflow::runner {

// runs/<experiment>/<definition>/round-NNN.jsonl, or one that was set aside: round-NNN.<8 hex digits>.jsonl.
bool is_run_member(std::string_view name);

// logs/<name>
bool is_log_member(std::string_view name);

// The name of the file of a bundle: processor, hardware threads (0 = not known), and its identity.
std::string bundle_file_name(std::string_view processor, std::int64_t threads, std::string_view identity);

}  // namespace tmflow::runner
