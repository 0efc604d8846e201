// A model's graph at the sizes of one call: for devices that compile concrete sizes alone
// (TENON_COMPILE_STATIC).
#pragma once
#include <span>

#include <tenon/abi/base.h>

#include "core/base/errors/status.h"
#include "core/ir/graph.h"
#include "core/runtime/values/shapes.h"

namespace tenon::session {

// The graph with values in place of its symbolic sizes; ports and names stay. Values are solved
// from the dims of the inputs, also where these are expressions (n of 2*n). shapes: of this graph.
// arrays: one per input, checked; only their dims are read. Sizes that no input mentions, and those
// that only a run decides, stay symbolic. Fails with what disagrees (Shapes::solve), and with what
// the graph asserts of its sizes.
Result<ir::Ref<ir::Graph>> at_sizes(const ir::Graph& graph, const runtime::Shapes& shapes,
                                    std::span<const tenon_array_t* const> arrays);

}  // namespace tenon::session
