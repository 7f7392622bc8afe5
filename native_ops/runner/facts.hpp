// The facts and the settings of a machine, in the same documents as src/tmflow/platform makes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// `uname -m`, unchanged.
std::string this_machine();

// The facts of the machine whose files are under `root` and whose `uname -m` is `machine`. null = unreadable.
Json platform_facts(const std::filesystem::path& root = "/", const std::string& machine = this_machine());

// A fact; "" or 0 if it is unknown.
std::string text_of(const Json& facts, std::string_view fact);
std::int64_t count_of(const Json& facts, std::string_view fact);

// The identity of a platform: a hash of all its facts.
std::string platform_sha256(const Json& facts);

// A one-line name of the platform, for display.
std::string display_name(const Json& facts);

// The number of CPUs that this process may run on. In a container or a batch job it can be below the
// platform's.
std::optional<int> processors_allowed();

// The settings. `tm_enabled`: whether a trial transaction of the processor committed; nullopt = not tried.
Json environment_facts(std::optional<bool> tm_enabled, const std::filesystem::path& root = "/");

// The versions and flags that were compiled into this program: the `software` of its runs.
Json software_facts();

}  // namespace tmflow::runner
