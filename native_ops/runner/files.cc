#include "runner/files.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "runner/errors.hpp"
#include "runner/sysfiles.hpp"

extern char** environ;

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw BadInput(path.string() + " cannot be written: " + why + "; what was written before is kept.");
}

// A file descriptor that its destructor closes.
class File {
 public:
  File(const fs::path& path, int flags) : path_(path), handle_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (handle_ < 0) refuse(path_, std::strerror(errno));
  }
  ~File() { close(handle_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void cut(std::size_t bytes) {
    if (ftruncate(handle_, static_cast<off_t>(bytes)) != 0) refuse(path_, std::strerror(errno));
    if (lseek(handle_, 0, SEEK_END) < 0) refuse(path_, std::strerror(errno));
  }

  void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(handle_, text.data(), text.size());
      if (written < 0 && errno != EINTR) refuse(path_, std::strerror(errno));
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (fsync(handle_) != 0) refuse(path_, std::strerror(errno));
  }

 private:
  const fs::path path_;
  const int handle_;
};

}  // namespace

std::string read_file(const fs::path& path) {
  auto text = file_bytes(path);
  if (!text) throw BadInput(path.string() + " cannot be read.");
  return *std::move(text);
}

void append_at(const fs::path& path, std::size_t keep, std::string_view text) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed) refuse(path, failed.message());
  File file(path, O_WRONLY | O_CREAT);
  file.cut(keep);
  file.write_all(text);
}

std::string output_of(const std::vector<std::string>& command) {
  const auto refused = [&](const std::string& why) {
    std::string said;
    for (const std::string& word : command) said += (said.empty() ? "" : " ") + word;
    return BadInput("`" + said + "` " + why + ".");
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw refused("has no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char piece[1 << 16];
  for (ssize_t n = 0; failed == 0 && (n = read(ends[0], piece, sizeof piece)) != 0;) {
    if (n > 0) text.append(piece, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (failed != 0) throw refused("cannot run: " + std::string(std::strerror(failed)));
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw refused("failed");
  return text;
}

}  // namespace tmflow::runner
