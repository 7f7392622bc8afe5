// A bundle: run files with what is needed to trust them, in one zip. As src/tmflow/bundle/writer.py makes
// it: the same content has the same manifest, and so the same identity.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace tmflow::runner {

struct Exported {
  std::filesystem::path path;
  std::string identity;  // hash of the manifest
  std::size_t runs;
  std::string platform;  // for people
};

// Writes the runs of a results folder, with what belongs to them, as a bundle to `out`; if that is a folder,
// into it, under a name of its own. Throws std::invalid_argument where there is nothing to export or runs are
// of several platforms, std::runtime_error where a file is damaged or the bundle cannot be written.
Exported export_bundle(const std::filesystem::path& results, const std::filesystem::path& out);

}  // namespace tmflow::runner
