// The probe in the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tmflow::python {

void bind_probe(nanobind::module_& m);

}  // namespace tmflow::python
