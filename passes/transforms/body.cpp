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

Value Body::add(const TypeView& type, uint32_t first_dim) {
  Value out;
  Dims dims = type.dims();
  dims.erase(dims.begin(), dims.begin() + first_dim);
  if (b_.status().ok()) b_.note(argument(region(), {type.dtype(), dims}, "", &out));
  return out;
}
Value Body::argument_like(Value v) {
  return add(v.type(), 0);
}
Value Body::argument_of_slice(Value v) {
  return add(v.type(), 1);
}

Status Body::clone(Region from, std::span<const Value> arguments, std::vector<Value>* yields) {
  TENON_TRY(b_.status());
  const tenon_region_view_t view = from.view();
  std::vector<tenon_value_t> values;
  for (const Value v : arguments) values.push_back(v.id());
  values.insert(values.end(), view.captures, view.captures + view.capture_count);
  std::vector<tenon_value_t> made(view.yield_count, TENON_NONE);
  TENON_TRY(graph_api().region_clone(graph_api().self, &b_.raw(), from.graph(), from.id(),
                                     values.data(), static_cast<uint32_t>(values.size()),
                                     made.data()));
  for (const tenon_value_t id : made) yields->push_back(Value(b_.graph(), id));
  return {};
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

std::vector<Attr> attributes_without(const Node& node,
                                     std::initializer_list<std::string_view> names) {
  std::vector<Attr> out;
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    if (std::find(names.begin(), names.end(), sym_text(view.attrs[i].name)) == names.end())
      out.push_back(Attr(view.attrs[i]));
  }
  return out;
}

}  // namespace tenon::passes
