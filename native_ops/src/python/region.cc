// The class `Region`: the strategies over the memory of a NumPy array.
#include "region.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "array_region.hpp"
#include "counters.hpp"
#include "tmflow/core/gathered_rows.hpp"

namespace nb = nanobind;

namespace tmflow::python {
namespace {

template <class T>
using WritableArray = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;
template <class T>
using ReadArray = nb::ndarray<const T, nb::numpy, nb::c_contig, nb::device::cpu>;

// As Python writes it: "(784, 10)".
std::string shape_of(const auto& array) {
  std::string shape;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    shape.append(axis == 0 ? "" : ", ").append(std::to_string(array.shape(axis)));
  }
  return "(" + shape + (array.ndim() == 1 ? ",)" : ")");
}

// The shape of that many rows of the array.
std::string with_rows(const auto& array, std::size_t rows) {
  std::string shape = "(" + std::to_string(rows);
  for (std::size_t axis = 1; axis < array.ndim(); ++axis) shape += ", " + std::to_string(array.shape(axis));
  return shape + (array.ndim() == 1 ? ",)" : ")");
}

// The elements of a row. Throws for an array without any.
std::size_t width_of(const auto& array) {
  const std::size_t rows = array.ndim() == 0 ? 0 : array.shape(0);
  if (rows == 0 || array.size() == 0) {
    throw nb::value_error(("an array of shape " + shape_of(array) + " has no rows").c_str());
  }
  return array.size() / rows;
}

// An array and the variable over its memory.
template <class T>
struct Held {
  Held(WritableArray<T> owner, int workers, bool full, bool by_rows)
      : array(std::move(owner)),
        variable({array.data(), array.size()}, workers, full, full && by_rows ? width_of(array) : 0) {}

  WritableArray<T> array;
  Variable<T> variable;
};

class Region {
 public:
  Region(nb::handle array, int workers, const std::string& measures, bool by_rows) {
    if (measures != "usual" && measures != "full") {
      throw nb::value_error(("measures is '" + measures + "'; valid: usual, full").c_str());
    }
    const bool full = measures == "full";
    if (!hold<float>(array, workers, full, by_rows) && !hold<double>(array, workers, full, by_rows)) {
      throw nb::value_error("array must be a writable, C-contiguous NumPy array of float32 or float64");
    }
  }

  void prepare(const std::string& strategy, const std::vector<std::string>& parameters) {
    std::visit([&](auto& held) { held->variable.prepare(strategy, parameters); }, held_);
  }

  void apply(const std::string& strategy, double alpha, nb::handle delta, int worker,
             const std::vector<std::string>& parameters) {
    std::visit([&](auto& held) { apply_to(*held, strategy, parameters, alpha, delta, worker); }, held_);
  }

  void apply_dense(const std::string& strategy, double alpha, nb::handle input, nb::handle output_gradient,
                   int worker, const std::vector<std::string>& parameters) {
    std::visit(
        [&](auto& held) {
          apply_dense_to(*held, strategy, parameters, alpha, input, output_gradient, worker);
        },
        held_);
  }

  void apply_rows(const std::string& strategy, double alpha, nb::handle rows, nb::handle values, int worker,
                  const std::vector<std::string>& parameters) {
    std::visit([&](auto& held) { apply_rows_to(*held, strategy, parameters, alpha, rows, values, worker); },
               held_);
  }

  void read(const std::string& strategy, nb::handle into, int worker,
            const std::vector<std::string>& parameters) {
    std::visit(
        [&](auto& held) {
          fill_like(*held, into,
                    [&](auto elements) { held->variable.read(strategy, parameters, elements, worker); });
        },
        held_);
  }

  void copy(const std::string& strategy, nb::handle into, int worker,
            const std::vector<std::string>& parameters) {
    std::visit(
        [&](auto& held) {
          fill_like(*held, into,
                    [&](auto elements) { held->variable.copy(strategy, parameters, elements, worker); });
        },
        held_);
  }

  void copy_rows(const std::string& strategy, nb::handle rows, nb::handle into, int worker,
                 const std::vector<std::string>& parameters) {
    std::visit([&](auto& held) { copy_rows_from(*held, strategy, parameters, rows, into, worker); }, held_);
  }

  void settle() {
    std::visit([](auto& held) { held->variable.settle(); }, held_);
  }

  void restart() {
    std::visit([](auto& held) { held->variable.restart(); }, held_);
  }

  nb::list counters() {
    nb::list rows;
    std::visit(
        [&](auto& held) {
          const bool knows_torn = held->variable.counts_torn_reads();
          for (int worker = 0; worker < held->variable.workers(); ++worker) {
            rows.append(counters_of(worker, held->variable.stats(worker), knows_torn));
          }
        },
        held_);
    return rows;
  }

  nb::object lost() {
    return std::visit(
        [](auto& held) -> nb::object {
          const auto lost = held->variable.lost();
          if (!lost) return nb::none();
          nb::dict row;
          row["expected"] = lost->expected;
          row["lost"] = lost->lost;
          return row;
        },
        held_);
  }

 private:
  template <class T>
  bool hold(nb::handle array, int workers, bool full, bool by_rows) {
    WritableArray<T> owner;
    if (!nb::try_cast(array, owner, false)) return false;
    held_ = std::make_unique<Held<T>>(std::move(owner), workers, full, by_rows);
    return true;
  }

  template <class T>
  static void apply_to(Held<T>& held, const std::string& strategy, const std::vector<std::string>& parameters,
                       double alpha, nb::handle delta, int worker) {
    const ReadArray<T> read = operand<T>(delta, "delta");
    if (shape_of(read) != shape_of(held.array)) {
      throw nb::value_error(
          ("delta must be of the array's shape, " + shape_of(held.array) + ", not " + shape_of(read))
              .c_str());
    }
    const GradientDescent<T> update{.alpha = finite_alpha<T>(alpha), .delta = {read.data(), read.size()}};
    const nb::gil_scoped_release released;
    held.variable.apply(strategy, parameters, update, worker);
  }

  // Runs `fill(elements)` on the elements of `into`, an array like that of the variable.
  template <class T, class Fill>
  static void fill_like(Held<T>& held, nb::handle into, const Fill& fill) {
    const WritableArray<T> array = destination<T>(into, shape_of(held.array));
    const nb::gil_scoped_release released;
    fill(std::span<T>(array.data(), array.size()));
  }

  template <class T>
  static void copy_rows_from(Held<T>& held, const std::string& strategy,
                             const std::vector<std::string>& parameters, nb::handle rows, nb::handle into,
                             int worker) {
    const ReadArray<std::int64_t> row = row_numbers(rows);
    const std::vector<std::int64_t> numbers(row.data(), row.data() + row.size());
    if (std::ranges::adjacent_find(numbers, std::greater_equal<>()) != numbers.end()) {
      throw nb::value_error("rows must be in ascending order, each once");
    }
    const std::size_t width = width_of(held.array);
    check_rows(numbers, held.array.shape(0));
    const WritableArray<T> array = destination<T>(into, with_rows(held.array, row.size()));
    const nb::gil_scoped_release released;
    held.variable.copy_rows(strategy, parameters, numbers, width, {array.data(), array.size()}, worker);
  }

  template <class T>
  static void apply_dense_to(Held<T>& held, const std::string& strategy,
                             const std::vector<std::string>& parameters, double alpha, nb::handle input,
                             nb::handle output_gradient, int worker) {
    const ReadArray<T> in = operand<T>(input, "input"), out = operand<T>(output_gradient, "output_gradient");
    if (in.ndim() != 2 || out.ndim() != 2 || in.shape(0) != out.shape(0) || in.shape(0) == 0) {
      throw nb::value_error(("input and output_gradient must be matrices with a row for each example, not " +
                             shape_of(in) + " and " + shape_of(out))
                                .c_str());
    }
    if (held.array.ndim() != 2 || held.array.shape(0) != in.shape(1) || held.array.shape(1) != out.shape(1)) {
      throw nb::value_error(("the array must have a row for each column of input and the columns of "
                             "output_gradient, but it is " +
                             shape_of(held.array) + ", and they are " + shape_of(in) + " and " +
                             shape_of(out))
                                .c_str());
    }
    const DenseGradient<T> gradient{
        .input = {in.data(), in.size()}, .output = {out.data(), out.size()}, .examples = in.shape(0)};
    const GradientDescent<T> update{.alpha = finite_alpha<T>(alpha), .dense = &gradient};
    const nb::gil_scoped_release released;
    held.variable.apply(strategy, parameters, update, worker);
  }

  template <class T>
  static void apply_rows_to(Held<T>& held, const std::string& strategy,
                            const std::vector<std::string>& parameters, double alpha, nb::handle rows,
                            nb::handle values, int worker) {
    const ReadArray<std::int64_t> row = row_numbers(rows);
    const ReadArray<T> value = operand<T>(values, "values");
    const std::string shape = shape_of(held.array);
    if (held.array.ndim() == 0 || shape_of(value) != with_rows(held.array, row.size())) {
      throw nb::value_error(("values must have a row of the array's shape " + shape + " for each of the " +
                             std::to_string(row.size()) + " rows, but are of shape " + shape_of(value))
                                .c_str());
    }
    GatheredRows<T> gathered({row.data(), row.size()}, {value.data(), value.size()}, width_of(held.array));
    gathered.fit(held.array.shape(0));
    const GradientDescent<T> update{.alpha = finite_alpha<T>(alpha), .rows = &gathered.gradient()};
    const nb::gil_scoped_release released;
    held.variable.apply(strategy, parameters, update, worker);
  }

  static ReadArray<std::int64_t> row_numbers(nb::handle rows) {
    ReadArray<std::int64_t> row;
    if (!nb::try_cast(rows, row, false) || row.ndim() != 1) {
      throw nb::value_error("rows must be a C-contiguous NumPy array of int64 with one dimension");
    }
    check_aligned(std::span(row.data(), row.size()), "rows");
    return row;
  }

  template <class T>
  static WritableArray<T> destination(nb::handle into, const std::string& shape) {
    WritableArray<T> array;
    if (!nb::try_cast(into, array, false) || shape_of(array) != shape) {
      throw nb::value_error(("into must be a writable, C-contiguous NumPy array of the type of the array and "
                             "of the shape " +
                             shape)
                                .c_str());
    }
    return array;
  }

  template <class T>
  static ReadArray<T> operand(nb::handle array, const char* name) {
    ReadArray<T> read;
    if (!nb::try_cast(array, read, false)) {
      throw nb::value_error(
          (std::string(name) + " must be a C-contiguous NumPy array of the array's own type").c_str());
    }
    return read;
  }

  std::variant<std::unique_ptr<Held<float>>, std::unique_ptr<Held<double>>> held_;
};

}  // namespace

void bind_region(nb::module_& m) {
  nb::class_<Region>(m, "Region",
                     "A variable: the memory of a NumPy array, a mutex, and counters for each worker.")
      .def(
          nb::init<nb::handle, int, const std::string&, bool>(), nb::arg("array"), nb::arg("workers") = 1,
          nb::arg("measures") = "usual", nb::arg("by_rows") = false,
          "Uses a writable, C-contiguous, aligned float32 or float64 array of any shape, which is updated in "
          "place. measures: full also counts lost updates and torn reads and times locks; then all updates "
          "and "
          "reads name one strategy, and every update is one of rows if by_rows, else none is. Raises "
          "ValueError for any other array, and if it overlaps the array of a live region.")
      .def(
          "prepare", &Region::prepare, nb::arg("strategy"),
          nb::arg("parameters") = std::vector<std::string>(),
          "Creates what the strategy needs, which the first update or read does otherwise. Raises ValueError "
          "if the array is too large for full measures.")
      .def(
          "apply", &Region::apply, nb::arg("strategy"), nb::arg("alpha"), nb::arg("delta"),
          nb::arg("worker") = 0, nb::arg("parameters") = std::vector<std::string>(),
          "array -= alpha * delta under the strategy, without the interpreter lock. worker: a number that no "
          "other thread uses meanwhile, or -1 in all threads. delta must have the type "
          "and shape of the array and must not share its memory; alpha must be finite. The consistency of "
          "the "
          "strategy holds among updates with the same strategy and parameters; with other updates it holds "
          "only if both lock the mutex of the region. Raises ValueError, and changes nothing, for an unknown "
          "strategy, parameter or worker and for an invalid alpha or delta.")
      .def("apply_dense", &Region::apply_dense, nb::arg("strategy"), nb::arg("alpha"), nb::arg("input"),
           nb::arg("output_gradient"), nb::arg("worker") = 0,
           nb::arg("parameters") = std::vector<std::string>(),
           "array -= alpha * (input.T @ output_gradient) under the strategy, like apply, but without storing "
           "the product. array is [rows, columns], input [examples, rows], output_gradient [examples, "
           "columns]. Raises ValueError for a strategy that does not use the selectable kernels.")
      .def("apply_rows", &Region::apply_rows, nb::arg("strategy"), nb::arg("alpha"), nb::arg("rows"),
           nb::arg("values"), nb::arg("worker") = 0, nb::arg("parameters") = std::vector<std::string>(),
           "array[rows] -= alpha * values under the strategy, like apply, and no other row is touched. rows: "
           "int64 "
           "[n], in any order; a row that is given several times gets the sum. values: [n, the shape of a "
           "row]. "
           "Raises ValueError for rows that the array does not have, and for a strategy that cannot update "
           "rows.")
      .def("read", &Region::read, nb::arg("strategy"), nb::arg("into"), nb::arg("worker") = 0,
           nb::arg("parameters") = std::vector<std::string>(),
           "Copies the array to `into`, of its type and shape, with the read consistency of the strategy "
           "among "
           "updates with the same strategy and parameters. Raises ValueError for a strategy without such a "
           "read.")
      .def("copy", &Region::copy, nb::arg("strategy"), nb::arg("into"), nb::arg("worker") = 0,
           nb::arg("parameters") = std::vector<std::string>(),
           "Copies the memory of the array to `into`, without the strategy, so it may contain parts of "
           "updates.")
      .def("copy_rows", &Region::copy_rows, nb::arg("strategy"), nb::arg("rows"), nb::arg("into"),
           nb::arg("worker") = 0, nb::arg("parameters") = std::vector<std::string>(),
           "The same for some rows: int64 [n], in ascending order and each once; into: [n, the shape of a "
           "row].")
      .def("settle", &Region::settle,
           "Copies the variable to the array, for a strategy that keeps it elsewhere. No update may "
           "run meanwhile.")
      .def(
          "restart", &Region::restart,
          "Copies the array, which was assigned, to the variable, for a strategy that keeps it elsewhere. No "
          "update may run meanwhile.")
      .def("counters", &Region::counters,
           "One dict per worker: worker, updates, attempts, commits, fallbacks, aborts (by raw status), and "
           "with full measures waited_ns and held_ns of its locks, reads and torn ones, which are None where "
           "they are not known.")
      .def("lost", &Region::lost,
           "expected: the updates of elements that were made; lost: how many of them were lost. None without "
           "full measures. No update may run meanwhile.");
}

}  // namespace tmflow::python
