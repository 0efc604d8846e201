// Copying a region whose symbols get other dims: for a graph at certain sizes.
#pragma once
#include <cstdint>
#include <span>

#include "core/ir/graph.h"

namespace tenon::ir {

// Leaves a symbol to what the given values say of it, as Graph::clone_region does.
inline constexpr Dim kUnmappedSymbol = INT64_MIN;

// As to.clone_region(place, from, region, values, out_yields) for a place that is there and a
// region of another graph. symbols: for each symbol of `from` a dim of `to`, or kUnmappedSymbol.
Status clone_region_with(Graph& to, Place place, const Graph& from, Region region,
                         std::span<const Value> values, std::span<const Dim> symbols,
                         std::span<Value> out_yields);

}  // namespace tenon::ir
