// An update in an emulated transaction: into a buffer, and at the commit from there into the variable.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/htm/emulated/processor.hpp"

namespace tmflow::htm::emulated {

// The update of the elements [first, first + count), or of those of them that lie in the rows of its
// gradient, line by line of the variable: its elements are read and their slots, then the gradient's at the
// same place, and they are written. This traversal stands for the hardware that watches the loads and stores
// of the kernel. The kernel itself runs on the buffer, so it computes the same bits. A line that the kernel
// `skip_zero` leaves as it is counts as read only; that the commit copies its unchanged elements makes no
// difference, because no thread has written them since.
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
        variable_(variable),
        first_(first),
        count_(count) {
    if (update.slots != nullptr) on_buffers_.slots = &buffered_slots_;
  }
  BufferedUpdate(const BufferedUpdate&) = delete;

  void operator()() {
    if (read()) {
      for (std::size_t slot = 0; slot < kMostSlots; ++slot) {
        buffered_slots_.memory[slot] = slot_of(slot, 0) == nullptr ? nullptr : slot_buffers_[slot].data();
      }
      for_each_part([&](std::size_t, std::size_t n, const T* gradient, std::size_t at) {
        on_buffers_.change(buffer_, at, n, gradient);
      });
    }
    clear_upper_halves();
  }

  // For the commit. The shadow is notified only of completed updates: attempts that abort are no updates.
  void publish() {
    for_each_part([&](std::size_t part, std::size_t elements, const T*, std::size_t at) {
      update_.shadowed(part, elements, [&](std::size_t begin, std::size_t n) {
        const std::size_t from = at + (begin - part);
        for (std::size_t slot = 0; slot < kMostSlots; ++slot) {
          if (T* const to = slot_of(slot, begin)) copy_(slot_buffers_[slot].data() + from, to, n);
        }
        copy_(buffer_.data() + from, variable_.data() + begin, n);
      });
    });
    clear_upper_halves();
  }

 private:
  // Runs `part(begin, n, gradient, at)` on each part of the update; `at`: its place in the buffers.
  template <class Part>
  void for_each_part(const Part& part) {
    std::size_t at = 0;
    update_.for_each_part(first_, count_, [&](std::size_t begin, std::size_t n, const T* gradient) {
      part(begin, n, gradient, at);
      at += n;
    });
  }

  // False: the transaction has aborted.
  bool read() {
    buffer_.clear();
    for (std::vector<T>& buffer : slot_buffers_) buffer.clear();
    bool alive = true;
    update_.for_each_part(first_, count_, [&](std::size_t begin, std::size_t n, const T* gradient) {
      alive = alive && read_part(begin, n, gradient);
    });
    return alive;
  }

  bool read_part(std::size_t begin, std::size_t count, const T* gradient) {
    for (std::size_t at = 0, n; at < count; at += n) {
      T* const from = variable_.data() + begin + at;
      n = std::min(in_line(from), count - at);
      const std::size_t bytes = n * sizeof(T);
      const bool written = changes({gradient + at, n});
      T *const first_slot = slot_of(0, begin + at), *const second_slot = slot_of(1, begin + at);
      const auto of_slot = [&](const T* slot) { return slot == nullptr ? 0 : bytes; };
      const bool alive = thread_.access(
          {Access::read(from, bytes), Access::read(first_slot, of_slot(first_slot)),
           Access::read(second_slot, of_slot(second_slot)), Access::read(gradient + at, bytes),
           Access::written(first_slot, of_slot(first_slot)),
           Access::written(second_slot, of_slot(second_slot)), Access::written(from, written ? bytes : 0)},
          [&] {
            keep(from, n, buffer_);
            if (first_slot != nullptr) keep(first_slot, n, slot_buffers_[0]);
            if (second_slot != nullptr) keep(second_slot, n, slot_buffers_[1]);
          });
      if (!alive) return false;
    }
    return true;
  }

  // The slot of an element; null without such a slot.
  T* slot_of(std::size_t slot, std::size_t element) const noexcept {
    return update_.slots == nullptr ? nullptr : update_.slots->from(element)[slot];
  }

  void keep(const T* from, std::size_t n, std::vector<T>& buffer) const {
    const std::size_t size = buffer.size();
    buffer.resize(size + n);
    copy_(from, buffer.data() + size, n);
  }

  // Whether the kernel writes any of the elements with this gradient, which belongs to this thread alone.
  bool changes(std::span<const T> gradient) const {
    return update_.slots != nullptr || !skips_zeros_ ||
           std::ranges::any_of(gradient, [&](T delta) { return update_.alpha * delta != 0; });
  }

  // The number of elements from `element` to the end of its line.
  std::size_t in_line(const T* element) const {
    return (line_bytes_ - reinterpret_cast<std::uintptr_t>(element) % line_bytes_) / sizeof(T);
  }

  Thread& thread_;
  const std::size_t line_bytes_;
  const GradientDescent<T>& update_;
  const bool skips_zeros_ = skips_zeros<T>(update_.kernel);
  const Copy<T> copy_ = find_copy<T>();
  const std::span<T> variable_;
  const std::size_t first_, count_;
  std::vector<T> buffer_;
  std::array<std::vector<T>, kMostSlots> slot_buffers_;
  Slots<T> buffered_slots_ = update_.slots == nullptr ? Slots<T>{.kernel = nullptr} : *update_.slots;
  GradientDescent<T> on_buffers_ = update_;
};

}  // namespace tmflow::htm::emulated
