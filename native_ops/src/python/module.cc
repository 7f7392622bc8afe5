// The Python module `_core`: the strategies over NumPy arrays, the audit and the probe, without TensorFlow.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "array_region.hpp"
#include "bench.hpp"
#include "counters.hpp"
#include "probe.hpp"
#include "tmflow/core/gathered_rows.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/itm/transaction.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/probe/tm_probe.hpp"
#include "train.hpp"

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

// An array and the variable over its memory.
template <class T>
struct Held {
  Held(WritableArray<T> owner, int workers)
      : array(std::move(owner)), variable({array.data(), array.size()}, workers) {}

  WritableArray<T> array;
  Variable<T> variable;
};

class Region {
 public:
  Region(nb::handle array, int workers) {
    if (!hold<float>(array, workers) && !hold<double>(array, workers)) {
      throw nb::value_error("array must be a writable, C-contiguous NumPy array of float32 or float64");
    }
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
    std::visit([&](auto& held) { read_from(*held, strategy, parameters, into, worker); }, held_);
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
          for (int worker = 0; worker < held->variable.workers(); ++worker) {
            rows.append(counters_of(worker, held->variable.stats(worker)));
          }
        },
        held_);
    return rows;
  }

 private:
  template <class T>
  bool hold(nb::handle array, int workers) {
    WritableArray<T> owner;
    if (!nb::try_cast(array, owner, false)) return false;
    held_ = std::make_unique<Held<T>>(std::move(owner), workers);
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

  template <class T>
  static void read_from(Held<T>& held, const std::string& strategy,
                        const std::vector<std::string>& parameters, nb::handle into, int worker) {
    WritableArray<T> array;
    if (!nb::try_cast(into, array, false) || shape_of(array) != shape_of(held.array)) {
      throw nb::value_error(
          ("into must be a writable, C-contiguous NumPy array of the type and shape of the array, " +
           shape_of(held.array))
              .c_str());
    }
    const nb::gil_scoped_release released;
    held.variable.read(strategy, parameters, {array.data(), array.size()}, worker);
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
    ReadArray<std::int64_t> row;
    if (!nb::try_cast(rows, row, false) || row.ndim() != 1) {
      throw nb::value_error("rows must be a C-contiguous NumPy array of int64 with one dimension");
    }
    check_aligned(std::span(row.data(), row.size()), "rows");
    const ReadArray<T> value = operand<T>(values, "values");
    const std::string shape = shape_of(held.array);
    if (held.array.ndim() == 0 || shape_of(value) != with_rows(held.array, row.size())) {
      throw nb::value_error(("values must have a row of the array's shape " + shape + " for each of the " +
                             std::to_string(row.size()) + " rows, but are of shape " + shape_of(value))
                                .c_str());
    }
    const std::size_t n_rows = held.array.shape(0), width = n_rows == 0 ? 0 : held.array.size() / n_rows;
    if (width == 0) throw nb::value_error(("an array of shape " + shape + " has no rows to update").c_str());
    GatheredRows<T> gathered({row.data(), row.size()}, {value.data(), value.size()}, width);
    gathered.fit(n_rows);
    const GradientDescent<T> update{.alpha = finite_alpha<T>(alpha), .rows = &gathered.gradient()};
    const nb::gil_scoped_release released;
    held.variable.apply(strategy, parameters, update, worker);
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

nb::list optimisers() {
  nb::list rows;
  for (const Optimiser optimiser : kOptimisers) {
    nb::dict row, given;
    if (optimiser == Optimiser::momentum) given["momentum"] = kMomentum;
    if (optimiser == Optimiser::adam) {
      given["beta1"] = kBeta1;
      given["beta2"] = kBeta2;
      given["epsilon"] = kEpsilon;
    }
    row["name"] = std::string(name_of(optimiser));
    row["slots"] = slots_of(optimiser);
    row["initial"] = initial_slot(optimiser);
    row["hyperparameters"] = given;
    rows.append(row);
  }
  return rows;
}

nb::list strategies() {
  nb::list rows;
  for (const Listed& listed : listed_strategies()) {
    const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
    nb::dict row;
    row["name"] = text(listed.info.name);
    row["summary"] = text(listed.info.summary);
    row["update_consistency"] = text(name_of(listed.info.updates));
    row["read_consistency"] = text(name_of(listed.info.reads));
    row["snapshot_consistency"] = text(name_of(listed.info.snapshots));
    row["keeps_elsewhere"] = listed.keeps_elsewhere;
    row["runnable"] = !listed.why_not.has_value();
    row["why_not"] = listed.why_not ? nb::object(text(*listed.why_not)) : nb::none();
    nb::list parameters;
    for (const Parameter& parameter : listed.parameters()) {
      nb::dict entry;
      entry["name"] = text(parameter.name);
      entry["fallback"] = text(parameter.fallback);
      entry["allowed"] = text(parameter.allowed());
      entry["summary"] = text(parameter.summary);
      parameters.append(entry);
    }
    row["parameters"] = parameters;
    rows.append(row);
  }
  return rows;
}

template <class T>
AuditReport audit_named(const std::string& strategy, const std::vector<std::string>& parameters,
                        const AuditPlan& plan) {
  const nb::gil_scoped_release released;
  const auto object = make_strategy<ArrayRegion<T>>(strategy, parameters);
  return audit<T>(*object, plan);
}

nb::dict audit_of(const std::string& strategy, int threads, int updates, std::int64_t elements,
                  const std::string& dtype, const std::vector<std::string>& parameters) {
  const AuditPlan plan{.threads = threads, .updates = updates, .elements = elements};
  AuditReport report;
  if (dtype == "float32") {
    report = audit_named<float>(strategy, parameters, plan);
  } else if (dtype == "float64") {
    report = audit_named<double>(strategy, parameters, plan);
  } else {
    throw nb::value_error(("unknown dtype '" + dtype + "'; valid: float32, float64").c_str());
  }
  nb::dict row;
  row["strategy"] = strategy;
  row["dtype"] = dtype;
  row["threads"] = threads;
  row["updates"] = updates;
  row["elements"] = elements;
  row["expected"] = report.expected;
  row["lost"] = report.tally.lost;
  row["doubled"] = report.tally.doubled;
  row["corrupt_elements"] = report.tally.corrupt;
  row["counted"] = report.counted;
  row["lost_fraction"] = report.lost_fraction();
  row["seconds"] = report.seconds;
  return row;
}

nb::dict tm_probe(int tries) {
  if (tries < 1) throw nb::value_error("tries must be at least 1");
  const TmProbe probe = probe_tm(tries);
  nb::dict statuses;
  for (const auto& [status, count] : probe.statuses) {
    char name[24];
    std::snprintf(name, sizeof name, "0x%08llx", static_cast<unsigned long long>(status));
    statuses[name] = count;
  }
  nb::dict facts;
  facts["reported"] = probe.reported;
  facts["tried"] = probe.tried;
  facts["committed"] = probe.committed;
  facts["statuses"] = statuses;
  return facts;
}

nb::dict build_info() {
  nb::dict info;
  info["compiler"] = TMFLOW_COMPILER;
  info["cflags"] = TMFLOW_CXX_FLAGS;
  return info;
}

NB_MODULE(_core, m) {
  m.doc() = "The strategies over NumPy arrays, without TensorFlow.";

  nb::class_<Region>(m, "Region",
                     "A variable: the memory of a NumPy array, a mutex, and counters for each worker.")
      .def(
          nb::init<nb::handle, int>(), nb::arg("array"), nb::arg("workers") = 1,
          "Uses a writable, C-contiguous, aligned float32 or float64 array of any shape, which is updated in "
          "place. Raises ValueError for any other array, and if it overlaps the array of a live region.")
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
      .def("settle", &Region::settle,
           "Copies the variable to the array, for a strategy that keeps it elsewhere. No update may "
           "run meanwhile.")
      .def(
          "restart", &Region::restart,
          "Copies the array, which was assigned, to the variable, for a strategy that keeps it elsewhere. No "
          "update may run meanwhile.")
      .def("counters", &Region::counters,
           "One dict per worker: worker, updates, attempts, commits, fallbacks, aborts (by raw status).");

  m.def("strategies", &strategies,
        "One dict per strategy: name, summary, update_consistency, read_consistency, runnable, why_not, "
        "parameters.");
  m.def(
      "check_parameters",
      [](const std::string& strategy, const std::vector<std::string>& parameters) {
        parameters_of(strategy, parameters);
      },
      nb::arg("strategy"), nb::arg("parameters"),
      "Raises ValueError for an unknown strategy, and for a parameter (\"name=value\") that it does not have "
      "or allow.");
  m.def(
      "why_not",
      [](const std::string& strategy, const std::vector<std::string>& parameters) {
        return why_not(strategy, parameters);
      },
      nb::arg("strategy"), nb::arg("parameters") = std::vector<std::string>(),
      "The reason why the strategy cannot run in this process with these parameters; None if it can. Raises "
      "as "
      "check_parameters does.");
  m.def(
      "optimisers", &optimisers,
      "One dict per optimiser: name, slots (their number), initial (the value of every slot before the first "
      "step), and hyperparameters.");
  m.def(
      "check_slots",
      [](const std::string& optimiser, const std::string& strategy,
         const std::vector<std::string>& parameters) {
        check_slots(optimiser_named(optimiser), strategy, parameters);
      },
      nb::arg("optimiser"), nb::arg("strategy"), nb::arg("parameters") = std::vector<std::string>(),
      "Raises ValueError, with the reason, if updates under the strategy cannot change the optimiser's "
      "slots.");
  m.def(
      "tm_library", &itm::library_in_use,
      "The path of the library that runs GCC's transactions in this process; None in a build without them.");
  m.def("audit", &audit_of, nb::arg("strategy"), nb::arg("threads"), nb::arg("updates"), nb::arg("elements"),
        nb::arg("dtype") = "float64", nb::arg("parameters") = std::vector<std::string>(),
        "Runs `threads` threads that each make `updates` updates of one variable of `elements` elements, and "
        "counts their outcome exactly, in units of one update of one element.");
  m.def("tm_probe", &tm_probe, nb::arg("tries") = 100,
        "Tests the hardware transactions of this processor: reported, tried, committed, and how often each "
        "raw abort status occurred.");
  bind_bench(m);
  bind_probe(m);
  bind_train(m);
  m.def("build_info", &build_info, "The compiler and cflags of this build.");
}

}  // namespace
}  // namespace tmflow::python
