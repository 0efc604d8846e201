// Measured costs in place of stated ones: what several compilers of a device can do is cut out,
// compiled by each and run there.
#pragma once
#include "core/dispatch/placement/claims.h"
#include "core/ir/graph.h"

namespace tenon::dispatch {

// Measures the nodes that the device's own compiler and a kernel set both take, alone and in atomic
// claims, and changes the costs of `claims` to what it found. Costs of other nodes stay estimates.
// Opens the device. Nodes with symbolic sizes, and what fails to compile or run, keep their costs:
// the log says so. Only a cancelled operation is an error. Measurements are cached by graph,
// target, plugin and number of threads. One at a time per device gives the truest figures.
Status measure_claims(const ir::Graph& graph, const CompileSettings& settings, Claims* claims);

}  // namespace tenon::dispatch
