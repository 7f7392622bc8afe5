// Who works where, by locks that the kernel keeps and releases when their holder ends, however it ends.
#pragma once

#include <filesystem>

namespace tmflow::runner {

// A file that is locked as long as the object lives.
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

// The machine-wide lock of timed work, tmflow-machine.lock in $TMFLOW_LOCK_DIR or /tmp, the same that the
// Python package takes; waits, and says so, while another process holds it. Throws BadInput where it cannot
// be had.
HeldFile machine_to_itself();

// The lock of a results folder. Throws BadInput where another study is at work in it, or it cannot be
// written.
HeldFile results_to_itself(const std::filesystem::path& results);

}  // namespace tmflow::runner
