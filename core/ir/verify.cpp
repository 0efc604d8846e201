// The verifier: every rule of graphs, and of their ops through the registry. All violations are
// collected, each with its place in the user's program.
//
//   T0310, T0311, T0312  operands, attributes, labelled constraints: checked by the registry
//   T0313  a result's type is not what inference gives
//   T0314  a value is used where it is not visible
//   T0317  a region is missing, shared or without yields
//   T0318  a symbol is used where it is not visible
//   T0323  a token is used twice, or an ordered op has none
#include <fmt/format.h>

#include <algorithm>

#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/ir/graph.h"

namespace tenon::ir {
namespace {
constexpr size_t kDiagnosticsMax = 50;  // further ones are only counted
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(const_cast<Graph&>(graph)) {}

  Status run() {
    check_region(0);
    if (count_ == 0) return {};
    std::string text;
    for (const std::string& line : lines_) text += (text.empty() ? "" : "\n") + line;
    if (count_ > lines_.size()) text += fmt::format("\nand {} more", count_ - lines_.size());
    Status out(TENON_INVALID_ARGUMENT, first_code_.empty() ? "T0322" : first_code_,
               std::move(text));
    out.add("diagnostics", std::to_string(count_));
    return out;
  }

 private:
  void report(std::string_view code, Node n, std::string message) {
    ++count_;
    if (first_code_.empty()) first_code_ = code;
    if (lines_.size() == kDiagnosticsMax) return;
    std::string line;
    if (count_ > 1) line += std::string(code) + ": ";
    if (n != kNone) {
      const Loc loc = graph_.node(n).loc;
      line +=
          fmt::format("{}: op {}: ", loc == 0 ? fmt::format("node {}", n) : graph_.loc_text(loc),
                      quoted(graph_.op_name(n)));
    }
    lines_.push_back(line + std::move(message));
  }

  void check_symbols(const tenon_type_t& type, Place place, Node n, std::string_view what) {
    for (uint32_t i = 0; i < type.rank; ++i) {
      std::vector<Symbol> symbols;
      graph_.dims().symbols_of(type.dims[i], &symbols);
      for (Symbol s : symbols) {
        if (graph_.symbol_visible(s, place)) continue;
        report("T0318", n,
               fmt::format(
                   "the type {} of {} mentions the symbol {}, which is not defined before it",
                   graph_.type_text(type), what, quoted(sym_text(graph_.dims().symbol(s).name))));
        return;
      }
    }
  }

  void check_region(Region r) {
    const RegionData& d = graph_.region(r);
    for (Symbol s : d.symbols) {
      const SymbolData& data = graph_.dims().symbol(s);
      if (data.region != r || data.node != kNone)
        report("T0318", d.owner, "a symbol has two definitions");
    }
    for (Value v : d.arguments) {
      check_symbols(graph_.type(v), {r, d.first}, d.owner, "an argument");
    }
    for (Node n : graph_.nodes(r)) check_node(n);
    for (size_t i = 0; i < d.yields.size(); ++i) {
      const Value v = d.yields[i];
      if (!graph_.value_live(v) || !graph_.visible(v, {r, kNone})) {
        report("T0314", d.owner, fmt::format("yield {} is a value that is not visible there", i));
      }
    }
    if (r == 0) {
      std::unordered_set<tenon_sym_t> seen;
      for (tenon_sym_t name : d.output_names) {
        if (name != 0 && !seen.insert(name).second) {
          report("T0203", kNone, fmt::format("two outputs are named {}", quoted(sym_text(name))));
        }
      }
    }
  }

  void check_tokens(Node n) {
    bool in = false, out = false;
    for (Value v : graph_.operands(n)) {
      if (v == kNone || graph_.type(v).kind != TENON_KIND_TOKEN) continue;
      in = true;
      if (graph_.uses(v).size() > 1) {
        uint32_t users = 0;
        for (const Use& u : graph_.uses(v)) {
          // A later sibling region may use the token of its own branch; two uses in one region are
          // unordered.
          const Region at = u.node == kNone ? u.region : graph_.node(u.node).parent;
          if (at == graph_.node(n).parent) ++users;
        }
        const bool first = graph_.uses(v)[0].node == n;
        if (users > 1 && first && ordered(n))
          report("T0323", n, "its token is used by another op too, so that their order is open");
      }
    }
    for (Value v : graph_.results(n)) out = out || graph_.type(v).kind == TENON_KIND_TOKEN;
    if (ordered(n) && !(in && out))
      report("T0323", n, "an op with effects takes a token and gives one");
  }
  bool ordered(Node n) const { return (graph_.node(n).traits & TENON_TRAIT_ORDERED) != 0; }

  void check_node(Node n) {
    const NodeData& d = graph_.node(n);
    bool usable = true;
    for (uint32_t i = 0; i < d.operand_count; ++i) {
      const Value v = d.operands[i];
      if (v == kNone) continue;
      if (!graph_.value_live(v) || !graph_.visible(v, {d.parent, n})) {
        report("T0314", n,
               fmt::format("operand {} is a value that is defined later or in another region", i));
        usable = false;
      }
    }
    for (Value v : graph_.results(n)) check_symbols(graph_.type(v), {d.parent, n}, n, "a result");
    for (const tenon_attr_t& a : graph_.attrs(n)) {
      if (a.kind != TENON_ATTR_DIMS) continue;
      check_symbols({TENON_I64, TENON_KIND_TENSOR, static_cast<uint32_t>(a.count), a.u.dims, 0},
                    {d.parent, n}, n, "an attribute");
    }
    for (Symbol s : graph_.symbols(n)) {
      if (graph_.dims().symbol(s).node != n) report("T0318", n, "a symbol has two definitions");
    }
    for (Region r : graph_.regions(n)) {
      if (!graph_.region_live(r) || graph_.region(r).owner != n) {
        report("T0317", n, "a region belongs to another node");
        usable = false;
        continue;
      }
      check_region(r);
    }
    check_tokens(n);
    if (usable) check_op(n);
  }

  // Infers the op again and compares. Symbols that the node defines are compared by position.
  void check_op(Node n) {
    const NodeData d = graph_.node(n);
    if (op_set() == nullptr)
      return report("T0308", n, "no operators are registered in this process");
    if (op_set()->find(d.op, d.op_version) == nullptr) {
      return report("T0308", n, std::string(op_set()->unknown(d.op, d.op_version).message()));
    }
    // Inference would define the op's symbols again, so its types are checked on a copy of the
    // graph's dims, which a frozen graph needs anyway. This is rare enough for its cost not to
    // matter.
    if (d.symbol_count != 0 || graph_.frozen_) return check_op_apart(n);
    infer_and_compare(graph_, n);
  }

  void check_op_apart(Node n) {
    if (!copy_) copy_ = graph_.clone();
    infer_and_compare(*copy_, n);
  }

  void infer_and_compare(Graph& graph, Node n) {
    const NodeData d = graph.node(n);
    const NodeDraft draft{d.op,           d.op_version,     d.loc, graph.operands(n),
                          graph.attrs(n), graph.regions(n), {}};
    std::vector<Symbol> made;
    std::vector<Symbol>* const outer = std::exchange(graph.inferring_, &made);
    Result<Inferred> inferred = op_set()->infer(graph, draft);
    graph.inferring_ = outer;
    for (Symbol s : made) graph.dims().symbol_retire(s);
    if (!inferred.ok()) {
      return report(inferred.status().error_code(), n, std::string(inferred.status().message()));
    }
    if (inferred->results.size() != d.result_count || made.size() != d.symbol_count) {
      return report(
          "T0313", n,
          fmt::format("it has {} results and defines {} symbols; inference gives {} and {}",
                      d.result_count, d.symbol_count, inferred->results.size(), made.size()));
    }
    // Symbols made for earlier nodes are not mentioned again, so the map only grows.
    while (!made.empty() && map_.size() < graph.dims().symbol_count())
      map_.push_back(graph.dims().symbol(static_cast<Symbol>(map_.size())).dim);
    for (size_t i = 0; i < made.size(); ++i)
      map_[made[i]] = graph.dims().symbol(graph.symbols(n)[i]).dim;
    for (uint32_t i = 0; i < d.result_count; ++i) {
      TypeDraft want = inferred->results[i];
      for (Dim& dim : want.dims) {
        if (made.empty()) break;
        Result<Dim> mapped = graph.dims().import(graph.dims(), dim, map_);
        if (mapped.ok()) dim = *mapped;
      }
      const tenon_type_t& have = graph.type(graph.results(n)[i]);
      bool same = have.kind == want.kind && have.dtype == want.dtype &&
                  have.rank == want.dims.size() && have.object == want.object;
      // Dims that are only maybe equal may come from a fact that a rewrite knew; only a provable
      // difference is an error.
      for (uint32_t k = 0; same && k < have.rank; ++k) {
        same = graph.dims().compare(TENON_REL_EQ, have.dims[k], want.dims[k]) != TENON_NO;
      }
      if (!same) {
        report("T0313", n,
               fmt::format("result {} has type {}; inference gives {}", i, graph.type_text(have),
                           graph.type_text(want.view())));
      }
    }
  }

  Graph& graph_;  // inference may add dims to it, never change it
  Ref<Graph> copy_;
  std::vector<Dim> map_;  // from the copy's symbols to those that its nodes define
  std::vector<std::string> lines_;
  std::string first_code_;
  size_t count_ = 0;
};

Status Graph::verify() const {
  return Verifier(*this).run();
}

}  // namespace tenon::ir
