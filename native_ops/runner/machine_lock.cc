#include "runner/machine_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "runner/errors.hpp"

namespace tmflow::runner {

HeldFile::~HeldFile() { close(handle_); }

HeldFile machine_to_itself() {
  const char* const folder = std::getenv("TMFLOW_LOCK_DIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/tmflow-machine.lock";
  int handle = open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (handle >= 0) {
    fchmod(handle, 0644);  // readable by all, whatever the umask; flock needs no more
  } else {
    handle = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (handle < 0) {
    throw BadInput("the lock file of timed measurements, " + path +
                   ", cannot be opened: " + std::strerror(errno) + ".");
  }
  if (flock(handle, LOCK_EX | LOCK_NB) != 0) {
    std::cerr << "tmflow-native: waiting for another timed measurement on this machine to end." << std::endl;
    while (flock(handle, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  return HeldFile(handle);
}

HeldFile results_to_itself(const std::filesystem::path& results) {
  std::error_code failed;
  std::filesystem::create_directories(results, failed);
  const int handle = open((results / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (handle < 0) {
    throw BadInput("the results folder " + results.string() + " cannot be written: " + std::strerror(errno) +
                   ".");
  }
  if (flock(handle, LOCK_EX | LOCK_NB) != 0) {
    close(handle);
    throw BadInput("another study is running in " + results.string() + "; wait until it ends, or stop it.");
  }
  return HeldFile(handle);
}

}  // namespace tmflow::runner
