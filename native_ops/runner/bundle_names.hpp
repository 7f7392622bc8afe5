// The names that members of a bundle may have, as in src/tmflow/bundle/format.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tmflow::runner {

// runs/<experiment>/<definition>/round-NNN.jsonl, or a file that was set aside: round-NNN.<8 hex
// digits>.jsonl.
bool is_run_member(std::string_view name);

// logs/<name>
bool is_log_member(std::string_view name);

// The file name of a bundle, made of the processor, its hardware threads (0 = unknown) and the bundle's
// identity.
std::string bundle_file_name(std::string_view processor, std::int64_t threads, std::string_view identity);

}  // namespace tmflow::runner
