// Another body for a graph: how a pass changes the graph's arguments.
#include "core/base/intern.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/graph.h"

namespace tenon::ir {

Status Graph::check_new_main(Region r) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (r == main() || !region_live(r) || regions_[r].owner != kNone) {
    return error(TENON_INVALID_ARGUMENT, "T0317",
                 "region {} does not exist or belongs to a node, and cannot be the main region", r);
  }
  if (!captures(r).empty()) {
    return error(TENON_INVALID_ARGUMENT, "T0314",
                 "region {} uses value {} of the main region, which it would replace", r,
                 captures(r)[0]);
  }
  std::unordered_set<tenon_sym_t> names;
  for (Value v : regions_[r].arguments) {
    const tenon_sym_t name = values_[v].name;
    if (name != 0 && !names.insert(name).second) {
      return error(TENON_ALREADY_EXISTS, "T0203", "the graph {} has two inputs named {}",
                   quoted(name_), quoted(sym_text(name)));
    }
  }
  return {};
}

// Erases nodes and arguments. The symbols stay: types of the new body may mention them.
Status Graph::empty_main() {
  TENON_RETURN_IF_ERROR(set_yields(main(), {}, {}));
  while (regions_[main()].last != kNone) TENON_RETURN_IF_ERROR(erase(regions_[main()].last));
  for (Value v : regions_[main()].arguments) {
    count_symbols(type(v), -1);
    values_[v].kind = 0;
  }
  regions_[main()].arguments.clear();
  argument_names_.clear();
  return {};
}

void Graph::adopt_body(Region from) {
  RegionData& old = regions_[from];
  RegionData& now = regions_[main()];
  now.arguments = std::move(old.arguments);
  for (Value v : now.arguments) {
    values_[v].region = main();
    if (values_[v].name != 0) argument_names_.insert(values_[v].name);
  }
  now.first = old.first;
  now.last = old.last;
  now.node_count = old.node_count;
  now.order_valid = old.order_valid;
  now.list_valid = false;
  for (Node n = now.first; n != kNone; n = nodes_[n].next) nodes_[n].parent = main();
  for (Symbol s : old.symbols) dims_.symbol(s).region = main();
  now.symbols.insert(now.symbols.end(), old.symbols.begin(), old.symbols.end());
  old = RegionData();
  old.alive = false;
  touch();
}

Status Graph::set_main(Region r, std::span<const std::string_view> names) {
  TENON_RETURN_IF_ERROR(check_new_main(r));
  const std::vector<Value> yields = regions_[r].yields;
  TENON_RETURN_IF_ERROR(set_yields(r, {}, {}));
  TENON_RETURN_IF_ERROR(empty_main());
  adopt_body(r);
  return set_yields(main(), yields, names);
}

}  // namespace tenon::ir
