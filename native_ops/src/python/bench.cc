// The benchmark's part of the Python module: one measurement at a time.
#include "bench.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "absl_loop.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/measure/bench.hpp"
#include "tmflow/measure/read_bench.hpp"

namespace nb = nanobind;

namespace tmflow::python {
namespace {

constexpr Parameter kMutexLoop[] = {{.name = "mutex",
                                     .fallback = "std",
                                     .summary = "the mutex held during the loop",
                                     .choices = "std, absl, spin, ticket, mcs"}};

constexpr Parameter kAlwaysAborts[] = {
    {.name = "budget", .fallback = "5", .summary = "attempts before the mutex is taken", .high = 1'000'000}};

template <class Mutex>
AuditReport measure_loop(LoopUnder<Mutex> loop_under, const AuditPlan& plan) {
  bench::MutexLoop<Mutex> loop(loop_under);
  return audit<float>(loop, plan);
}

AuditReport measure_mutex_loop(std::string_view mutex, const AuditPlan& plan) {
  const LoopsUnderMutex& loops = find_loops_under_mutex();
  if (mutex == "spin") return measure_loop(loops.spin, plan);
  if (mutex == "ticket") return measure_loop(loops.ticket, plan);
  if (mutex == "mcs") return measure_loop(loops.mcs, plan);
  return mutex == "absl" ? audit_absl_loop(plan) : measure_loop(loops.pthread, plan);
}

AuditReport measure_named(const std::string& name, const std::vector<std::string>& given,
                          const AuditPlan& plan) {
  if (name == "mutex_loop") {
    return measure_mutex_loop(Parameters(name, kMutexLoop, given).text("mutex"), plan);
  }
  if (name == "always_aborts") {
    bench::AlwaysAborts elision(Parameters(name, kAlwaysAborts, given).integer("budget"));
    return audit<float>(elision, plan);
  }
  if (name == "gradient_writing") {
    bench::NoUpdate none;
    return audit<float>(none, plan);
  }
  const auto strategy = make_strategy<ArrayRegion<float>>(name, given);
  return audit<float>(*strategy, plan);
}

nb::dict measure(const std::string& name, int threads, int updates, std::int64_t elements,
                 const std::vector<std::string>& parameters, bool fresh_gradient) {
  const AuditPlan plan{.threads = threads,
                       .updates = updates,
                       .elements = elements,
                       .stop_together = true,
                       .fresh_gradient = fresh_gradient};
  AuditReport report;
  {
    const nb::gil_scoped_release released;
    report = measure_named(name, parameters, plan);
  }
  nb::dict aborts;
  for (const auto& [status, count] : report.aborts) aborts[nb::int_(status)] = count;
  nb::dict row;
  row["updates"] = report.made;
  row["seconds"] = report.seconds;
  row["expected"] = report.expected;
  row["lost"] = report.tally.lost;
  row["doubled"] = report.tally.doubled;
  row["corrupt_elements"] = report.tally.corrupt;
  row["commits"] = report.commits;
  row["fallbacks"] = report.fallbacks;
  row["aborts"] = aborts;
  row["attempts_known"] = report.attempts_known;
  return row;
}

nb::dict measure_copies(int threads, int copies, std::int64_t elements) {
  check({.threads = threads, .updates = copies, .elements = elements});
  bench::CopyReport report;
  {
    const nb::gil_scoped_release released;
    report = bench::copy_at_once({.threads = threads, .copies = copies, .elements = elements});
  }
  if (!report.arrived) throw std::logic_error("a copy differs from its source");
  nb::dict row;
  row["updates"] = report.made;
  row["seconds"] = report.seconds;
  return row;
}

nb::dict measure_reads(const std::string& name, int readers, int writers, int reads, std::int64_t elements,
                       const std::vector<std::string>& parameters, bool consistent) {
  const ReadPlan plan{readers, writers, reads, elements, consistent};
  if (!consistent && listed_strategy(name).keeps_elsewhere) {
    throw std::invalid_argument("strategy '" + name +
                                "' does not keep the variable in this memory, so it has no plain copies");
  }
  ReadReport report;
  {
    const nb::gil_scoped_release released;
    const auto strategy = make_strategy<ArrayRegion<float>>(name, parameters);
    report = ReadBench(*strategy, plan).run();
  }
  nb::dict row;
  row["reads"] = report.reads;
  row["updates"] = report.updates;
  row["seconds"] = report.seconds;
  row["checked"] = report.checked;
  row["torn"] = report.torn;
  return row;
}

}  // namespace

void bind_bench(nb::module_& m) {
  m.def(
      "measure", &measure, nb::arg("name"), nb::arg("threads"), nb::arg("updates"), nb::arg("elements"),
      nb::arg("parameters") = std::vector<std::string>(), nb::arg("fresh_gradient") = false,
      "Times `threads` threads that update one float32 variable of `elements` elements until one of them has "
      "made `updates` updates, and counts the outcome of every update. With `fresh_gradient` each thread "
      "writes a new gradient before every update, and `seconds` includes this. `name` is a strategy, or one "
      "of the references of the benchmark: mutex_loop (with a mutex), always_aborts (with a budget), "
      "gradient_writing (no update).");
  m.def(
      "measure_reads", &measure_reads, nb::arg("name"), nb::arg("readers"), nb::arg("writers"),
      nb::arg("reads"), nb::arg("elements"), nb::arg("parameters") = std::vector<std::string>(),
      nb::arg("consistent") = true,
      "Times `readers` threads that copy one float32 variable of `elements` elements, while `writers` "
      "threads "
      "update it under the strategy, until one reader has made `reads` copies. Returns the total numbers of "
      "`reads` and `updates` in `seconds`. An untimed phase before it checks every copy: of `checked` "
      "copies, "
      "`torn` mix elements of different updates. The strategy makes the copies if `consistent`; otherwise "
      "they are plain. Raises ValueError for a strategy without such copies.");
  m.def("measure_copies", &measure_copies, nb::arg("threads"), nb::arg("copies"), nb::arg("elements"),
        "Times `threads` threads that each copy 6 * `elements` private bytes until one of them has made "
        "`copies` copies: the memory traffic of an update of that many float32 elements. `updates` is the "
        "total "
        "number of copies.");
}

}  // namespace tmflow::python
