// NumPy arrays as variables, in the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tmflow::python {

void bind_region(nanobind::module_& m);

}  // namespace tmflow::python
