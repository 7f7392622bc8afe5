// A file that is never visible half-written: it has another name until it is complete and on disk.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tmflow::runner {

class WholeFile {
 public:
  // Creates a missing folder. Every function throws std::runtime_error with the name of the file if the
  // system refuses.
  explicit WholeFile(std::filesystem::path path);
  ~WholeFile();  // removes an incomplete file
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes);
  void done();

 private:
  [[noreturn]] void refuse() const;

  const std::filesystem::path path_, unfinished_;
  int descriptor_ = -1;
};

// Writes a whole file at once.
void write_whole(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tmflow::runner
