// The update itself, variable[i] -= alpha * delta[i], in every form that the study compared without knowing
// it.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tmflow/core/parameters.hpp"
#include "tmflow/core/slots.hpp"
#include "tmflow/measure/shadow.hpp"

namespace tmflow {

// A loop over `n` elements that reads and writes each once, in order of address. The product is rounded
// before the subtraction (no fused multiply-add), so every kernel computes the same bits on every machine.
// `skip_zero` writes only the elements whose product is not zero. It differs from the others where these
// would write although the product is zero: an element of -0 may become 0 there, and a signalling NaN quiet.
//
// It may leave the upper halves of the vector registers in use, because clearing them would abort a hardware
// transaction (src/htm_rtm.cc): the caller clears them afterwards.
template <std::floating_point T>
using Kernel = void (*)(T* variable, const T* delta, T alpha, std::size_t n) noexcept;

// A plain copy of `n` elements, each loaded and stored as a whole. It may race with a kernel that writes the
// source. The caller then detects this afterwards (by versions) and discards the copy.
template <std::floating_point T>
using Copy = void (*)(const T* from, T* to, std::size_t n) noexcept;

// An input of a layer that is not zero.
template <std::floating_point T>
struct NonZero {
  std::uint32_t row;  // its number, which is that of the weights' row
  T value;
};

// The gradient of a dense layer's weights as two factors: the layer's input, transposed, and the gradient of
// its output. The weights are [rows, columns], all matrices are row-major, and element (r, c) of the gradient
// is the sum over the examples e, in their order, of input[e, r] * output[e, c].
template <std::floating_point T>
struct DenseGradient {
  std::span<const T> input;   // [examples, rows]
  std::span<const T> output;  // [examples, columns]
  std::size_t examples;
  // The inputs that are not zero, in the order of their rows, if the caller has listed them; only with one
  // example.
  std::optional<std::span<const NonZero<T>>> nonzero = std::nullopt;
  // Whether `output` is known to be finite: then a row of zeros in `input` changes nothing. The registry
  // checks this once for each update.
  bool output_is_finite = false;

  std::size_t rows() const noexcept { return input.size() / examples; }
  std::size_t columns() const noexcept { return output.size() / examples; }
  std::size_t size() const noexcept { return rows() * columns(); }
};

// The gradient of some rows of a variable; elsewhere it is zero. As TensorFlow's IndexedSlices, but with the
// rows in order and each once (GatheredRows).
template <std::floating_point T>
struct RowGradient {
  std::span<const std::int64_t> rows;  // ascending, each once
  std::span<const T> values;           // [rows.size(), width]
  std::size_t width;                   // the number of elements of a row, at least 1
  std::size_t elements;                // of the variable

  // The elements of a row, by its index in `rows`.
  std::size_t begin_of(std::size_t index) const noexcept {
    return static_cast<std::size_t>(rows[index]) * width;
  }
  std::size_t end_of(std::size_t index) const noexcept { return begin_of(index) + width; }

  // Runs `part(begin, n, values)` on each run of touched elements that lies in [first, first + count) and in
  // one row, in order.
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, const Part& part) const {
    for_each_part(first, count, index_from(first), part);
  }

  // The same, if `index` is known to be that of the first row that ends after the element `first`.
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, std::size_t index, const Part& part) const {
    const std::size_t end = first + count;
    for (std::size_t i = index; i < rows.size() && std::max(first, begin_of(i)) < end; ++i) {
      const std::size_t begin = std::max(first, begin_of(i)), stop = std::min(end, end_of(i));
      part(begin, stop - begin, values.data() + i * width + (begin - begin_of(i)));
    }
  }

  // The index of the first row that ends after the element `first`. Multiplies, because a division takes
  // longer than the whole search.
  std::size_t index_from(std::size_t first) const noexcept {
    const auto ends = [&](std::int64_t row) { return (static_cast<std::size_t>(row) + 1) * width <= first; };
    return static_cast<std::size_t>(std::ranges::partition_point(rows, ends) - rows.begin());
  }
};

// A written gradient, for code that is compiled separately and may share no functions: `n` rows of `width`
// elements each, ascending. A gradient of the whole variable is one row of all elements; that of an empty
// variable has none.
template <std::floating_point T>
struct RowPointers {
  const std::int64_t* rows;
  const T* values;
  std::size_t n, width;
};

// Whether none of the numbers is infinite or NaN. Only those have an exponent of all ones, so adding one to
// the exponent carries into the sign. A loop without branches can be vectorised.
template <std::floating_point T>
bool all_finite(std::span<const T> numbers) noexcept {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  constexpr Bits kOne = Bits{1} << (std::numeric_limits<T>::digits - 1),
                 kSign = Bits{1} << (8 * sizeof(T) - 1);
  Bits carried = 0;
  for (const T& number : numbers) carried |= (std::bit_cast<Bits>(number) & kExponent) + kOne;
  return (carried & kSign) == 0;
}

// The update of the elements [first, first + count) of a dense layer's weights, whose gradient is never
// written: variable[i] -= alpha * gradient[i], equal to the two-step update within rounding. `variable`
// points to the beginning of the whole variable. Like a kernel it leaves the vector registers as they are.
template <std::floating_point T>
using DenseKernel = void (*)(T* variable, const DenseGradient<T>& gradient, T alpha, std::size_t first,
                             std::size_t count) noexcept;

// Clears the upper halves of the vector registers, which x86 needs after wide vectors for full speed of
// narrow ones; does nothing elsewhere.
void clear_upper_halves() noexcept;

inline constexpr Parameter kKernelParameters[] = {
    {.name = "kernel",
     .fallback = "plain",
     .summary =
         "the loop of the update: plain; Eigen's, as in TensorFlow; fused with the computation of the "
         "gradient if that is a dense layer's, else plain; or writing only where the gradient is not zero",
     .choices = "plain, eigen, fused, skip_zero"},
    {.name = "optimisation",
     .fallback = "O3",
     .summary = "how the loop is compiled; the study's builds were probably not optimised",
     .choices = "O0, O3"},
};

// The reason why a kernel of that name cannot run here; nullopt if it can.
std::optional<std::string> kernel_why_not(std::string_view kernel);

// The kernel of that name and optimisation, for the widest vectors of this processor. Kernels are compiled
// separately for each optimisation and width (src/kernel_build.cc) and chosen at run time. The kernel must be
// able to run here.
template <std::floating_point T>
Kernel<T> find_kernel(std::string_view kernel = "plain", std::string_view optimisation = "O3") noexcept;

// Whether the kernel, one of `find_kernel`, leaves elements unwritten whose product is zero.
template <std::floating_point T>
bool skips_zeros(Kernel<T> kernel) noexcept;

// The copy for the widest vectors of this processor.
template <std::floating_point T>
Copy<T> find_copy() noexcept;

// The kernel of fused updates of that optimisation, for the widest vectors of this processor.
template <std::floating_point T>
DenseKernel<T> find_dense_kernel(std::string_view optimisation = "O3") noexcept;

// One step of gradient descent on one variable, with a written gradient (`delta`), with a gradient that is
// multiplied out on the fly if `dense` is not null, or of some rows if `rows` is not null. With `slots`,
// which exclude `dense`, it is one step of another optimiser: their loop replaces the kernel.
template <std::floating_point T>
struct GradientDescent {
  T alpha;
  std::span<const T> delta = {};
  Kernel<T> kernel = find_kernel<T>();
  const DenseGradient<T>* dense = nullptr;
  DenseKernel<T> dense_kernel = find_dense_kernel<T>();
  const RowGradient<T>* rows = nullptr;
  const Slots<T>* slots = nullptr;
  Shadow* shadow = nullptr;  // of the variable, if losses and tears are measured
  std::uint64_t id = 0;      // Shadow::new_id, if there is a shadow
  Shadow::Stamp stamp = {};  // of an update of rows, if there is a shadow

  // The size of the variable.
  std::size_t size() const noexcept {
    if (rows != nullptr) return rows->elements;
    return dense != nullptr ? dense->size() : delta.size();
  }

  // The number of elements that it may change.
  std::size_t touched() const noexcept { return rows != nullptr ? rows->values.size() : size(); }

  // The written gradient, or that of rows. Not for one that is multiplied out on the fly.
  RowPointers<T> pointers() const noexcept {
    static constexpr std::int64_t kFirst = 0;
    if (rows != nullptr) return {rows->rows.data(), rows->values.data(), rows->rows.size(), rows->width};
    return {&kFirst, delta.data(), delta.empty() ? 0U : 1U, delta.size()};
  }

  // Runs `part(begin, n, gradient)` on the elements of [first, first + count) that a written gradient, or
  // that of rows, changes.
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, const Part& part) const {
    if (rows == nullptr) {
      part(first, count, delta.data() + first);
    } else {
      rows->for_each_part(first, count, part);
    }
  }

  // Changes the elements [begin, begin + n), and their slots, by their written gradient.
  void change(std::span<T> variable, std::size_t begin, std::size_t n, const T* gradient) const noexcept {
    if (slots == nullptr) {
      kernel(variable.data() + begin, gradient, alpha, n);
    } else {
      slots->kernel(variable.data() + begin, slots->from(begin).data(), gradient, alpha, slots->hyper, n);
    }
  }

  // Update the elements [first, first + count) of a variable of size() elements.
  void operator()(std::span<T> variable, std::size_t first, std::size_t count) const noexcept {
    in_transaction(variable, first, count);
    clear_upper_halves();
  }

  // The same, if `row` is the index of the first row of the gradient that ends after `first`; ignored if the
  // gradient is not one of rows.
  void operator()(std::span<T> variable, std::size_t first, std::size_t count,
                  std::size_t row) const noexcept {
    if (rows == nullptr) return (*this)(variable, first, count);
    assert(variable.size() == size() && first + count <= size() && row == rows->index_from(first));
    update_rows(variable, first, count, row);
    clear_upper_halves();
  }

  // The update of [first, first + count) inside a hardware transaction; after it, clear_upper_halves.
  void in_transaction(std::span<T> variable, std::size_t first, std::size_t count) const noexcept {
    assert(variable.size() == size() && first + count <= size());
    if (rows != nullptr) return update_rows(variable, first, count, rows->index_from(first));
    shadowed(first, count, [&](std::size_t begin, std::size_t n) {
      if (dense != nullptr) {
        dense_kernel(variable.data(), *dense, alpha, begin, n);
      } else {
        change(variable, begin, n, delta.data() + begin);
      }
    });
  }

  // Runs `change(begin, n)`, which changes the elements [begin, begin + n), on [first, first + count), as one
  // range or several, and notifies the shadow, if there is one.
  template <class Change>
  void shadowed(std::size_t first, std::size_t count, const Change& change) const {
    if (shadow == nullptr) {
      change(first, count);
    } else {
      shadow->around(id, first, count, change, stamp);
    }
  }

 private:
  void update_rows(std::span<T> variable, std::size_t first, std::size_t count,
                   std::size_t row) const noexcept {
    rows->for_each_part(first, count, row, [&](std::size_t part, std::size_t elements, const T* values) {
      shadowed(part, elements, [&](std::size_t begin, std::size_t n) {
        change(variable, begin, n, values + (begin - part));
      });
    });
  }
};

// One read of a whole variable: a copy of it.
template <std::floating_point T>
struct Reading {
  std::span<T> into;
  Copy<T> copy = find_copy<T>();
  WatchedRead* watch = nullptr;  // if torn reads are measured

  // Read the elements [first, first + count) of a variable of into.size() elements.
  void operator()(std::span<const T> variable, std::size_t first, std::size_t count) const {
    in_transaction(variable, first, count);
    clear_upper_halves();
  }

  // The same inside a hardware transaction; after it, clear_upper_halves.
  void in_transaction(std::span<const T> variable, std::size_t first, std::size_t count) const {
    assert(variable.size() == into.size() && first + count <= into.size());
    const auto range = [&](std::size_t begin, std::size_t n) {
      copy(variable.data() + begin, into.data() + begin, n);
    };
    if (watch == nullptr) {
      range(first, count);
    } else {
      watch->around(first, count, range);
    }
  }
};

}  // namespace tmflow
