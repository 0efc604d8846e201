#include "dce_regions.h"

#include <algorithm>
#include <unordered_set>

namespace tenon::passes {
namespace {

using Flags = std::vector<bool>;

// What of a node with regions is needed. Operand i of the regions is operand `first` + i of the
// node; yields begin with the `carried` values.
class Needs {
 public:
  Needs(const Node& node, uint32_t first, uint32_t carried) : carried_(carried) {
    const tenon_node_view_t view = node.view();
    for (uint32_t i = 0; i < view.region_count; ++i)
      regions_.push_back(Region(node.graph(), view.regions[i]));
    operands.assign(node.operand_count() - first, false);
    for (uint32_t r = 0; r < node.result_count(); ++r)
      yields.push_back(node.result(r).use_count() > 0);
  }
  Flags operands, yields;

  // whole: a region whose yields are all needed, as the condition of a loop is; or none.
  void find(const Region* whole) {
    for (bool grew = true; grew;) {
      grew = false;
      for (const Region& region : regions_) {
        const bool all = whole != nullptr && region.id() == whole->id();
        mark(region, all ? Flags(region.yields().size(), true) : yields, &grew);
      }
      for (uint32_t i = 0; i < carried_; ++i) {
        if (operands[i] == yields[i]) continue;
        operands[i] = yields[i] = grew = true;
      }
    }
  }
  int64_t unused() const {
    return std::count(operands.begin(), operands.end(), false) +
           std::count(yields.begin() + carried_, yields.end(), false);
  }

 private:
  // Walks back from the yields that are needed to the arguments.
  void mark(const Region& region, const Flags& needed, bool* grew) {
    std::unordered_set<tenon_value_t> live;
    const std::vector<Value> ends = region.yields(), arguments = region.arguments();
    for (size_t i = 0; i < ends.size(); ++i) {
      if (needed[i]) live.insert(ends[i].id());
    }
    const std::vector<Node> nodes = region.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      // A type may mention a symbol that the node defines: it stays, as its operands do.
      bool used = !is_removable(op_of(*node)) || node->view().symbol_count != 0;
      for (uint32_t r = 0; r < node->result_count(); ++r)
        used = used || live.contains(node->result(r).id());
      if (!used) continue;
      for (const Value v : node->operands()) live.insert(v.id());
      const tenon_node_view_t view = node->view();
      for (uint32_t i = 0; i < view.region_count; ++i) {
        const tenon_region_view_t inner = Region(node->graph(), view.regions[i]).view();
        live.insert(inner.captures, inner.captures + inner.capture_count);
      }
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (operands[i] || !live.contains(arguments[i].id())) continue;
      operands[i] = *grew = true;
    }
  }

  const uint32_t carried_;
  std::vector<Region> regions_;
};

// A copy of a region with fewer arguments and yields.
Status copy_region(const Builder& at, Region from, const Flags& operands, const Flags& yields,
                   std::vector<Region>* out) {
  tenon_region_t id = TENON_NONE;
  TENON_TRY(graph_api().region_begin(graph_api().self, &at.raw(), &id));
  const Region region(at.graph(), id);
  Builder inside(at.graph(), id);
  const std::vector<Value> arguments = from.arguments();
  std::vector<Value> values, made, kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Value v;
    if (operands[i])
      TENON_TRY(argument(region, {arguments[i].dtype(), arguments[i].dims()}, "", &v));
    else  // only nodes that are not needed use it
      v = inside.full_like(arguments[i], 0);
    values.push_back(v);
  }
  TENON_TRY(clone_region(inside, from, values, &made));
  for (size_t i = 0; i < made.size(); ++i) {
    if (yields[i]) kept.push_back(made[i]);
  }
  out->push_back(region);
  return yield(region, kept);
}

bool is_plain(const Node& node) {
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.region_count; ++i) {
    const Region region(node.graph(), view.regions[i]);
    if (region.view().symbol_count != 0) return false;
    for (const Value v : region.arguments()) {
      if (!is_in(v.dtype(), kNumber | kPred | kComplex)) return false;
    }
  }
  return view.symbol_count == 0 || node.is("while");
}

// A scan that loses all operands that gave its length gets it as an attribute.
std::vector<Attr> attributes(const Node& node, const Needs& needs, uint32_t carried) {
  const tenon_node_view_t view = node.view();
  const auto cut = needs.operands.begin() + carried;
  const bool keeps_length = std::find(cut, needs.operands.end(), true) != needs.operands.end();
  std::vector<Attr> out;
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const std::string_view name = sym_text(view.attrs[i].name);
    if (name == "carry")
      out.push_back(Attr("carry", std::count(needs.operands.begin(), cut, true)));
    else if (name == "length" && view.attrs[i].count == 0 && !keeps_length)
      out.push_back(Attr("length", Dims{node.operand(carried).dim(0)}));
    else
      out.push_back(Attr(view.attrs[i]));
  }
  return out;
}

}  // namespace

Status prune_regions(Node* old_node, int64_t* out_removed) {
  const Node node = *old_node;
  *out_removed = 0;
  const bool is_while = node.is("while"), is_switch = node.is("switch");
  if ((!is_while && !is_switch && !node.is("scan")) || !is_plain(node)) return {};
  const uint32_t first = is_switch ? 1 : 0;
  const uint32_t carried = is_while    ? node.operand_count()
                           : is_switch ? 0
                                       : static_cast<uint32_t>(node.i64("carry"));
  const tenon_node_view_t view = node.view();
  std::vector<Region> old;
  for (uint32_t i = 0; i < view.region_count; ++i)
    old.push_back(Region(node.graph(), view.regions[i]));
  Needs needs(node, first, carried);
  needs.find(is_while ? &old[0] : nullptr);
  const int64_t unused = needs.unused();
  if (unused == 0) return {};

  Builder b = Builder::before(node);
  std::vector<Region> regions;
  for (size_t i = 0; i < old.size(); ++i) {
    const bool condition = is_while && i == 0;
    TENON_TRY(copy_region(b, old[i], needs.operands, condition ? Flags(1, true) : needs.yields,
                          &regions));
  }
  std::vector<Value> operands;
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    if (i < first || needs.operands[i - first]) operands.push_back(node.operand(i));
  }
  const Node made = b.build_node(node.op(), operands, attributes(node, needs, carried), regions);
  TENON_TRY(b.status());
  std::vector<uint32_t> order;
  uint32_t next = 0;
  for (const bool kept : needs.yields) order.push_back(kept ? next++ : TENON_NONE);
  // A symbol of the node that a type mentions must stay defined: then the node stays as it is.
  const tenon_code_t code =
      graph_api().node_replace(graph_api().self, node.graph(), node.id(), made.id(), order.data());
  if (code != TENON_OK) return erase(made);
  *old_node = made;
  *out_removed = unused;
  return {};
}

}  // namespace tenon::passes
