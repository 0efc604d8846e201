#include "core/dispatch/placement/properties.h"

#include <algorithm>

#include "core/base/errors/failure.h"

namespace tenon::dispatch {
namespace {

bool is_symbolic(const tenon_type_t& type) {
  return std::any_of(type.dims, type.dims + type.rank, [](tenon_dim_t d) { return d < 0; });
}

bool is_symbolic(const tenon_attr_t& attr) {
  if (attr.kind == TENON_ATTR_DIMS)
    return std::any_of(attr.u.dims, attr.u.dims + attr.count, [](tenon_dim_t d) { return d < 0; });
  if (attr.kind != TENON_ATTR_TYPES) return false;
  return std::any_of(attr.u.types, attr.u.types + attr.count,
                     [](const tenon_type_t& type) { return is_symbolic(type); });
}

bool region_mentions_symbols(const runtime::GraphReader& reader, tenon_region_t region) {
  const tenon_region_view_t view = reader.region(region);
  for (uint32_t i = 0; i < view.argument_count; ++i) {
    if (is_symbolic(reader.value(view.arguments[i]).type)) return true;
  }
  for (uint32_t i = 0; i < view.node_count; ++i) {
    if (mentions_symbols(reader, view.nodes[i])) return true;
  }
  return false;
}

}  // namespace

uint32_t compile_properties(runtime::Device& device, const tenon_compile_api_t* api) {
  if (api == nullptr || api->properties == nullptr) return 0;
  auto out = sized<tenon_compile_properties_t>();
  auto guard = device.serialise();
  clear_failure();
  const Status status =
      device.check(api->properties(api->self, device.target(), &out), "properties");
  return status.ok() ? out.flags : 0;
}

uint32_t compile_properties(runtime::Device& device) {
  return compile_properties(device, device.apis().compile);
}

bool mentions_symbols(const runtime::GraphReader& reader, tenon_node_t node) {
  const tenon_node_view_t view = reader.node(node);
  for (uint32_t i = 0; i < view.operand_count; ++i) {
    if (view.operands[i] != TENON_NONE && is_symbolic(reader.value(view.operands[i]).type))
      return true;
  }
  for (uint32_t i = 0; i < view.result_count; ++i) {
    if (is_symbolic(reader.value(view.results[i]).type)) return true;
  }
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    if (is_symbolic(view.attrs[i])) return true;
  }
  for (uint32_t i = 0; i < view.region_count; ++i) {
    if (region_mentions_symbols(reader, view.regions[i])) return true;
  }
  return false;
}

}  // namespace tenon::dispatch
