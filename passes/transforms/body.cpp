// Regions under construction.
#include <algorithm>

#include "loops.h"
#include "regions.h"

namespace tenon::passes {

Body::Body(const Builder& at) : b_(at.raw()) {
  tenon_region_t region = TENON_NONE;
  b_.note(graph_api().region_begin(graph_api().self, &at.raw(), &region));
  const Status status = b_.status();
  b_ = Builder(tenon_builder_t{at.graph(), region, TENON_NONE, at.raw().loc});
  b_.note(status);
}

Value Body::add(const Type& type) {
  Value out;
  if (b_.status().ok()) b_.note(argument(region(), type, "", &out));
  return out;
}
Value Body::argument_like(Value v) {
  return add({v.dtype(), v.dims()});
}
Value Body::argument_as(Value v, tenon_dtype_t type) {
  return add({type, v.dims()});
}
Value Body::argument_of_slice(Value v) {
  Dims dims = v.dims();
  dims.erase(dims.begin());
  return add({v.dtype(), dims});
}

Status Body::yield(const std::vector<Value>& values) {
  TENON_TRY(b_.status());
  return sdk::yield(region(), values);
}

std::vector<Region> regions_of(const Node& node) {
  const tenon_node_view_t view = node.view();
  std::vector<Region> out;
  for (uint32_t i = 0; i < view.region_count; ++i)
    out.push_back(Region(node.graph(), view.regions[i]));
  return out;
}

Targets targets_of(const Node& node, const ValueSet& varied, uint32_t first_operand) {
  Targets out;
  for (uint32_t i = first_operand; i < node.operand_count(); ++i) {
    if (varied.contains(node.operand(i).id())) out.operands.push_back(i);
  }
  for (const Value v : captures_of(node)) {
    const bool known = std::find(out.captures.begin(), out.captures.end(), v) != out.captures.end();
    if (varied.contains(v.id()) && !known) out.captures.push_back(v);
  }
  return out;
}

Status require_fixed_sizes(const Node& node, Region region) {
  if (region.view().symbol_count == 0) return {};
  return refuse(node, "T0410", "the size of a value that it carries changes between iterations");
}

Value tangent_of(const ValueMap& tangents, Value v) {
  const auto at = v.valid() ? tangents.find(v.id()) : tangents.end();
  return at == tangents.end() ? Value() : at->second;
}

Status replace_node(const Node& from, const Node& to, const std::vector<uint32_t>& order) {
  return graph_api().node_replace(graph_api().self, from.graph(), from.id(), to.id(),
                                  order.empty() ? nullptr : order.data());
}

}  // namespace tenon::passes
