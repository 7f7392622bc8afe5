// What a machine is, and the settings under which it ran: the same documents as src/tmflow/platform makes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// `uname -m`, as the kernel says it.
std::string this_machine();

// The facts of the machine whose files are under `root`, and whose `uname -m` is `machine`. null =
// unreadable.
Json platform_facts(const std::filesystem::path& root = "/", const std::string& machine = this_machine());

// A fact, "" or 0 where it is not known.
std::string text_of(const Json& facts, std::string_view fact);
std::int64_t count_of(const Json& facts, std::string_view fact);

// The identity of a platform: the hash over all its facts.
std::string platform_sha256(const Json& facts);

// The platform in a line, for people.
std::string display_name(const Json& facts);

// The CPUs that this process may run on: fewer than the platform's in a container or a batch job of a part.
std::optional<int> processors_allowed();

// The settings. `tm_enabled`: whether a trial transaction of the processor committed; nothing = not tried.
Json environment_facts(std::optional<bool> tm_enabled, const std::filesystem::path& root = "/");

// Versions and flags that were compiled into this program: the `software` of its runs.
Json software_facts();

}  // namespace tmflow::runner
