#include "probe.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "tmflow/probe/probe.hpp"

namespace nb = nanobind;

namespace tmflow::python {

void bind_probe(nb::module_& m) {
  m.def(
      "probe",
      [](double seconds, const std::optional<std::string>& emulate, const std::string& version) {
        const nb::gil_scoped_release released;
        return probe::probe_json({.seconds = seconds, .emulate = emulate, .version = version});
      },
      nb::arg("seconds"), nb::arg("emulate").none(), nb::arg("version"),
      "Finds out, in that time, what this machine's transactions and memory really do, or the transactions "
      "of "
      "an emulated machine, given by its numbers. Returns the document of docs/probe.md as JSON, its "
      "platform_sha256 null. Raises ValueError for a time that is not 5 to 600 s, and for impossible "
      "numbers.");
}

}  // namespace tmflow::python
