#include "changes.h"

#include <algorithm>
#include <unordered_set>

namespace tenon::mutants {
namespace {

constexpr std::string_view kCommutative[] = {"add", "mul", "max",  "min",  "and",
                                             "or",  "xor", "fmax", "fmin", "hypot"};

bool commutes(const Node& node) {
  if (node.is("compare")) return node.i64("direction") <= TENON_CMP_NE;
  return std::ranges::find(kCommutative, node.op()) != std::end(kCommutative);
}
// Whether an op knows that it is its operand, such as a pad that adds nothing.
bool is_operand(const Node& node, Value operand) {
  if (node.is("pad") && std::ranges::all_of(node.i64s("low"), [](int64_t n) { return n == 0; }))
    return true;  // nothing is between single elements
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  const tenon_op_def_t* op = nullptr;
  std::vector<tenon_value_t> made(node.result_count(), TENON_NONE);
  uint32_t matched = 0;
  if (registry->op_find(registry->self, node.view().op, node.view().op_version, &op) != TENON_OK ||
      op->fold == nullptr)
    return false;
  const Builder b = Builder::before(node);
  return op->fold(op->self, &b.raw(), node.id(), made.data(), &matched) == TENON_OK &&
         matched != 0 && made[0] == operand.id();
}

// ---- Of one node: each function visits changes of one kind ----

void of_results(const Node& node, const Visit& visit) {
  uint32_t r = 0;  // the first that is used
  while (r + 1 < node.result_count() && node.result(r).use_count() == 0) ++r;
  const auto change = [&](const std::string& name, const std::function<Value(Builder&, Value)>& f) {
    visit(node, {name, [node, f, r](Builder& b) {
                   std::vector<Value> made = copy(b, node, node.operands());
                   if (!made.empty()) made[r] = f(b, made[r]);
                   return made;
                 }});
  };
  const tenon_dtype_t dtype = node.result(r).dtype();
  if (dtype == TENON_PRED) change("not", [](Builder& b, Value v) { return b.build("not", {v}); });
  if (!has_derivative(dtype) || is_zeros(node.result(r))) return;
  if (has_imaginary(node.result(r)))
    change("conjugate", [](Builder& b, Value v) { return conjugate(b, v); });
  change("negate", [](Builder& b, Value v) { return b.build("neg", {v}); });
  change("scale", [](Builder& b, Value v) { return scaled(b, v); });
}

void of_operands(const Node& node, const Visit& visit) {
  const std::vector<Value> operands = node.operands();
  for (uint32_t i = 0; i < operands.size() && node.result_count() == 1; ++i) {
    if (operands[i].valid() && operands[i].type() == node.result().type() &&
        !is_operand(node, operands[i]))
      visit(node, {cat("take ", i), [v = operands[i]](Builder&) { return std::vector{v}; }});
  }
  for (uint32_t i = 0; i < operands.size(); ++i) {
    for (uint32_t j = i + 1; j < operands.size() && !commutes(node); ++j) {
      if (!operands[i].valid() || !operands[j].valid() || operands[i] == operands[j]) continue;
      if (!(operands[i].type() == operands[j].type())) continue;
      visit(node, {cat("swap ", i, " ", j), [node, operands, i, j](Builder& b) {
                     std::vector<Value> other = operands;
                     std::swap(other[i], other[j]);
                     return copy(b, node, other);
                   }});
    }
  }
}

// Another value that the rule has at hand, of the same type.
void of_saved(const Emission& e, const Node& node, const Visit& visit) {
  std::vector<Value> saved = e.source.operands();
  for (const Value r : results_of(e.source)) saved.push_back(r);
  for (const std::vector<Value>& pool : {saved, e.given}) {
    for (uint32_t i = 0; i < node.operand_count(); ++i) {
      if (!node.operand(i).valid() || std::ranges::find(pool, node.operand(i)) == pool.end())
        continue;
      for (uint32_t k = 0; k < pool.size(); ++k) {
        if (!pool[k].valid() || pool[k] == node.operand(i) ||
            !(pool[k].type() == node.operand(i).type()))
          continue;
        visit(node, {cat("other ", i, " ", k), [node, i, v = pool[k]](Builder& b) {
                       std::vector<Value> other = node.operands();
                       other[i] = v;
                       return copy(b, node, other);
                     }});
      }
    }
  }
}

// The node with another attribute.
Change with(const Node& node, const std::string& name, uint32_t place,
            const std::function<Attr(const tenon_attr_t&)>& f) {
  return {name, [node, place, f](Builder& b) {
            std::vector<Attr> attrs = attributes(node);
            attrs[place] = f(node.view().attrs[place]);
            return results_of(b.build_node(node.op(), node.operands(), attrs));
          }};
}

void of_list(const Node& node, uint32_t place, const Visit& visit) {
  const tenon_attr_t attr = node.view().attrs[place];
  const std::string name(sym_text(attr.name));
  if (name == "pad_high") return;  // no window is where as many results come out
  const std::vector<int64_t> window = node.i64s("window");
  const std::vector<int64_t> list(attr.u.is, attr.u.is + attr.count);
  // Their order has no meaning.
  const bool is_set = name == "collapsed_dims" || name == "inserted_dims" ||
                      (name == "dims" && (node.op().starts_with("reduce_") || node.is("reverse")));
  const auto other = [&](const std::string& how, std::vector<int64_t> to) {
    auto kept = std::make_shared<std::vector<int64_t>>(std::move(to));
    visit(node, with(node, cat(how, " ", name), place,
                     [kept, name](const tenon_attr_t&) { return Attr(name, *kept); }));
  };
  for (size_t i = 0; i < list.size(); ++i) {
    // What is repeated anyway may lie anywhere, and single elements have no distance.
    if (node.is("broadcast") && node.operand(0).dim(static_cast<uint32_t>(i)).is(1)) continue;
    if (name == "interior" && node.operand(0).dim(static_cast<uint32_t>(i)).is(1)) continue;
    if (name.starts_with("stride") && node.result().dim(static_cast<uint32_t>(i)).is(1)) continue;
    if (name == "dilation" && i < window.size() && window[i] == 1) continue;
    for (const int64_t by : {1, -1}) {
      std::vector<int64_t> to = list;
      to[i] += by;
      // Axis -1 may be the same as 0; 0 and 1 are often flags.
      if ((to[i] < 0 && list[i] >= 0) || (list[i] == 1 && by == 1)) continue;
      other(cat("entry ", i, by > 0 ? " more" : " less"), to);
    }
    if (i == 0 || list[i] == list[i - 1] || is_set) continue;
    std::vector<int64_t> to = list;
    std::swap(to[i], to[i - 1]);
    other(cat("exchange ", i), to);
  }
}

void of_attributes(const Node& node, const Visit& visit) {
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const std::string name(sym_text(view.attrs[i].name));
    if (view.attrs[i].kind == TENON_ATTR_I64) {
      const int64_t now = view.attrs[i].u.i;  // 0 and 1 are often flags
      for (const int64_t by : {1, -1}) {
        if (now + by < 0 || (now == 1 && by == 1)) continue;
        visit(node, with(node, cat(by > 0 ? "more " : "less ", name), i,
                         [name, by](const tenon_attr_t& a) { return Attr(name, a.u.i + by); }));
      }
    } else if (view.attrs[i].kind == TENON_ATTR_I64S) {
      of_list(node, i, visit);
    } else if (view.attrs[i].kind == TENON_ATTR_F64) {
      visit(node, with(node, cat("more ", name), i, [name](const tenon_attr_t& a) {
              return Attr(name, a.u.f == 0 ? 0.125 : a.u.f * 1.25);
            }));
    }
  }
}

// What the results are made from.
std::unordered_set<tenon_value_t> live_values(const Emission& e) {
  std::unordered_set<tenon_value_t> live;
  for (const Value r : e.results) live.insert(r.id());
  const auto nodes = built(e);
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const Node& node = at->first;
    bool is_live = node.view().parent != e.at->region || !is_plain(node);
    for (const Value r : results_of(node)) is_live = is_live || live.contains(r.id());
    for (const Value v : node.operands()) {
      if (is_live) live.insert(v.id());
    }
  }
  return live;
}

// Inference of a change must not assert anything of sizes that are symbols.
bool is_static(const Node& node) {
  for (const Value v : node.operands()) {
    if (v.valid() && !v.type().is_static()) return false;
  }
  for (const Value r : results_of(node)) {
    if (!r.type().is_static()) return false;
  }
  return true;
}

}  // namespace

void each_change(const Emission& e, const Visit& visit) {
  const auto live = live_values(e);
  const auto is_live = [&](Value v) { return live.contains(v.id()); };
  for (const auto& [node, place] : built(e)) {
    if (!is_plain(node) || !is_static(node) || !std::ranges::any_of(results_of(node), is_live))
      continue;
    const auto named = [&, place = place](const Node& of, const Change& c) {
      visit(of, {cat(c.name, "@", of.op(), "#", place), c.make});
    };
    of_results(node, named);
    of_operands(node, named);
    of_saved(e, node, named);
    of_attributes(node, named);
  }
}

}  // namespace tenon::mutants
