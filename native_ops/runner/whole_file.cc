#include "runner/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tmflow::runner {
namespace {

std::filesystem::path beside(const std::filesystem::path& path) {
  return path.string() + "." + std::to_string(getpid()) + ".tmp";
}

}  // namespace

WholeFile::WholeFile(std::filesystem::path path)
    : path_(std::filesystem::absolute(path)), unfinished_(beside(path_)) {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);  // if it fails, open reports why
  descriptor_ = open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse();
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(unfinished_.c_str());
}

void WholeFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void WholeFile::done() {
  if (fsync(descriptor_) != 0 || rename(unfinished_.c_str(), path_.c_str()) != 0) refuse();
  close(descriptor_);
  descriptor_ = -1;
}

void WholeFile::refuse() const {
  throw std::runtime_error(path_.string() + " cannot be written: " + std::strerror(errno));
}

void write_whole(const std::filesystem::path& path, std::string_view bytes) {
  WholeFile file(path);
  file.write(bytes);
  file.done();
}

}  // namespace tmflow::runner
