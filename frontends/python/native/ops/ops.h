// Operators whose meaning is a Python function, registered while the program runs (ADR 0031, 0038).
#ifndef FRONTENDS_PYTHON_NATIVE_OPS_OPS_H_
#define FRONTENDS_PYTHON_NATIVE_OPS_OPS_H_

#include <nanobind/nanobind.h>

namespace tenon::python {

// True once the host may call Python: from then on every slot of graphs gives the GIL back.
bool host_calls_python();

void bind_ops(nanobind::module_& module);
void bind_importers(nanobind::module_& module);
void bind_kernels(nanobind::module_& module);
void bind_engines(nanobind::module_& module);

}  // namespace tenon::python

#endif
