// A file that is never seen half-written: another name until it is done and on the disk.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tmflow::runner {

class WholeFile {
 public:
  // Makes the folder where there is none. Each throws std::runtime_error, naming the file, where the system
  // refuses.
  explicit WholeFile(std::filesystem::path path);
  ~WholeFile();  // what is not done is removed
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
