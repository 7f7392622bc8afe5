// An update in an emulated transaction: into a buffer, and at the commit from there into the variable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/htm/emulated/processor.hpp"

namespace tmflow::htm::emulated {

// The update of the elements [first, first + count), line by line of the variable: its elements are read,
// then the gradient's at the same place, and they are written. This traversal stands for the hardware that
// watches the loads and stores of the kernel. The kernel itself runs on the buffer, so it computes the same
// bits. A line that the kernel `skip_zero` leaves as it is counts as read only; that the commit copies its
// unchanged elements makes no difference, because no thread has written them since.
//
// The elements are copied in the same critical section in which their line is requested. So no thread writes
// them during the copy: a transaction that commits does so in its own critical section, and an owner of the
// mutex has aborted this transaction before it began to write.
template <class T, class Thread = HardwareThread>
class BufferedUpdate {
 public:
  BufferedUpdate(Thread& thread, std::size_t line_bytes, const GradientDescent<T>& update,
                 std::span<T> variable, std::size_t first, std::size_t count)
      : thread_(thread),
        line_bytes_(line_bytes),
        update_(update),
        first_(first),
        elements_(variable.subspan(first, count)),
        delta_(update.delta.subspan(first, count)) {}

  void operator()() {
    if (read()) update_.kernel(buffer_.data(), delta_.data(), update_.alpha, buffer_.size());
    clear_upper_halves();
  }

  // For the commit. The shadow is notified only of completed updates: attempts that abort are no updates.
  void publish() {
    update_.shadowed(first_, buffer_.size(), [&](std::size_t begin, std::size_t n) {
      copy_(buffer_.data() + (begin - first_), elements_.data() + (begin - first_), n);
    });
    clear_upper_halves();
  }

 private:
  // False: the transaction has aborted.
  bool read() {
    buffer_.clear();
    while (buffer_.size() < elements_.size()) {
      const std::size_t at = buffer_.size(), n = in_line(at), bytes = n * sizeof(T);
      T* const from = elements_.data() + at;
      const bool alive = thread_.access({Access::read(from, bytes), Access::read(delta_.data() + at, bytes),
                                         Access::written(from, changes(at, n) ? bytes : 0)},
                                        [&] {
                                          buffer_.resize(at + n);
                                          copy_(from, buffer_.data() + at, n);
                                        });
      if (!alive) return false;
    }
    return true;
  }

  // Whether the kernel writes any of the elements [at, at + n). The gradient belongs to this thread alone.
  bool changes(std::size_t at, std::size_t n) const {
    const std::span<const T> line = delta_.subspan(at, n);
    return !skips_zeros_ || std::ranges::any_of(line, [&](T delta) { return update_.alpha * delta != 0; });
  }

  // The number of elements from `at` on in one line of the variable.
  std::size_t in_line(std::size_t at) const {
    const auto address = reinterpret_cast<std::uintptr_t>(elements_.data() + at);
    return std::min((line_bytes_ - address % line_bytes_) / sizeof(T), elements_.size() - at);
  }

  Thread& thread_;
  const std::size_t line_bytes_;
  const GradientDescent<T>& update_;
  const bool skips_zeros_ = skips_zeros<T>(update_.kernel);
  const Copy<T> copy_ = find_copy<T>();
  const std::size_t first_;
  const std::span<T> elements_;
  const std::span<const T> delta_;
  std::vector<T> buffer_;
};

}  // namespace tmflow::htm::emulated
