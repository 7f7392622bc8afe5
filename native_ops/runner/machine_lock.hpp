// Mutual exclusion of processes by file locks. The kernel releases them when their holder ends for any
// reason.
#pragma once

#include <filesystem>

namespace tmflow::runner {

// A file that stays locked while the object lives.
class HeldFile {
 public:
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;
  ~HeldFile();

 private:
  friend HeldFile machine_to_itself();
  friend HeldFile results_to_itself(const std::filesystem::path& results);
  explicit HeldFile(int handle) : handle_(handle) {}

  const int handle_;
};

// The machine-wide lock of timed work: tmflow-machine.lock in $TMFLOW_LOCK_DIR or /tmp. The Python package
// takes the same lock. While another process holds it, the function prints that and waits. Throws BadInput if
// the lock file cannot be opened or locked.
HeldFile machine_to_itself();

// The lock of a results folder. Throws BadInput if another study works in the folder, or if it cannot be
// written.
HeldFile results_to_itself(const std::filesystem::path& results);

}  // namespace tmflow::runner
