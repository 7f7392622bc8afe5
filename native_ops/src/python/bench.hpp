// The benchmark's functions in the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tmflow::python {

void bind_bench(nanobind::module_& m);

}  // namespace tmflow::python
