// A bundle: run files and the evidence for them in one zip file. It has the format of
// src/tmflow/bundle/writer.py: the same content has the same manifest, and so the same identity.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace tmflow::runner {

struct Exported {
  std::filesystem::path path;
  std::string identity;  // hash of the manifest
  std::size_t runs;
  std::string platform;  // display name
};

// Writes the runs of a results folder, with the files that belong to them, as a bundle to `out`. If `out` is
// a folder, the file gets a generated name in it. Throws std::invalid_argument if there is nothing to export
// or the runs are of several platforms, std::runtime_error if a file is damaged or the bundle cannot be
// written.
Exported export_bundle(const std::filesystem::path& results, const std::filesystem::path& out);

}  // namespace tmflow::runner
