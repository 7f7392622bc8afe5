// The Python module `_core`: the strategies over NumPy arrays, the audit and the probe, without TensorFlow.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench.hpp"
#include "probe.hpp"
#include "region.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/itm/transaction.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/probe/tm_probe.hpp"
#include "train.hpp"

namespace nb = nanobind;

namespace tmflow::python {
namespace {

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

  bind_region(m);
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
