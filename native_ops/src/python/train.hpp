// The native driver in the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tmflow::python {

void bind_train(nanobind::module_& m);

}  // namespace tmflow::python
