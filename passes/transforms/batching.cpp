// Nodes without regions on several samples.
#include <algorithm>
#include <deque>

#include "batch.h"
#include "loops.h"
#include "regions.h"

namespace tenon::passes {
namespace {

std::vector<int64_t> places(int64_t first, size_t count) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(first + static_cast<int64_t>(i));
  return out;
}

// The attributes of a node whose operands have a new dim 0.
class RoledAttributes {
 public:
  RoledAttributes(const Node& node, const tenon_op_def_t& op, Dim size) {
    for (uint32_t i = 0; i < op.attr_count; ++i) {
      const tenon_attr_def_t& declared = *tenon_op_attr(&op, i);
      const uint32_t role = op.rules->roles == nullptr ? TENON_ROLE_OTHER : op.rules->roles[i];
      add(*node.attr(view(declared.name)), view(declared.name), role, declared.default_i, size);
    }
  }
  const std::vector<Attr>& list() const { return attrs_; }

 private:
  void add(const tenon_attr_t& attr, std::string_view name, uint32_t role, int64_t neutral,
           Dim size) {
    if (role == TENON_ROLE_AXIS) {
      attrs_.push_back(Attr(name, attr.u.i + 1));
    } else if (role == TENON_ROLE_AXES ||
               (role == TENON_ROLE_PER_DIM && attr.count != 0 && attr.kind == TENON_ATTR_I64S)) {
      std::vector<int64_t>& list = lists_.emplace_back(attr.u.is, attr.u.is + attr.count);
      if (role == TENON_ROLE_AXES)
        for (int64_t& axis : list) ++axis;
      else
        list.insert(list.begin(), neutral);
      attrs_.push_back(Attr(name, list));
    } else if (attr.kind == TENON_ATTR_DIMS &&
               (role == TENON_ROLE_SHAPE || (role == TENON_ROLE_PER_DIM && attr.count != 0))) {
      Dims dims = {role == TENON_ROLE_SHAPE ? size : Dim(size.graph(), neutral)};
      for (uint64_t i = 0; i < attr.count; ++i) dims.push_back(Dim(size.graph(), attr.u.dims[i]));
      attrs_.push_back(Attr(name, dims));
    } else {
      attrs_.push_back(Attr(attr));
    }
  }
  std::deque<std::vector<int64_t>> lists_;
  std::vector<Attr> attrs_;
};

}  // namespace

Sampled Batching::at(Value old) const {
  const auto found = old.valid() ? now_.find(old.id()) : now_.end();
  return found == now_.end() ? Sampled{old, false} : found->second;
}

Value Batching::batched(Builder& b, const Sampled& now) const {
  if (now.is_batched || !now.value.valid()) return now.value;
  Dims shape = now.value.dims();
  shape.insert(shape.begin(), size_);
  return b.broadcast(now.value, shape, places(1, shape.size() - 1));
}

bool Batching::depends(const Node& node) const {
  for (const Value v : node.operands()) {
    if (at(v).is_batched) return true;
  }
  for (const Value v : captures_of(node)) {
    if (at(v).is_batched) return true;
  }
  return false;
}

void Batching::set_symbols(const Node& old, const Node& made) {
  const tenon_node_view_t from = old.view(), to = made.view();
  for (uint32_t i = 0; i < std::min(from.symbol_count, to.symbol_count); ++i) {
    auto view = sized<tenon_symbol_view_t>();
    if (graph_api().symbol_view(graph_api().self, made.graph(), to.symbols[i], &view) == TENON_OK)
      symbols_[from.symbols[i]] = Dim(made.graph(), view.dim);
  }
}

Dim Batching::now(Dim d) const {
  auto view = sized<tenon_dim_view_t>();
  if (symbols_.empty() || !d.valid() || d.is_constant() ||
      graph_api().dim_view(graph_api().self, size_.graph(), d.raw(), &view) != TENON_OK ||
      view.op == TENON_DIM_CONSTANT)
    return d;
  if (view.op == TENON_DIM_SYMBOL) {
    const auto at = symbols_.find(view.symbol);
    return at == symbols_.end() ? d : at->second;
  }
  return Dim::make(view.op, now(Dim(size_.graph(), view.a)), now(Dim(size_.graph(), view.b)));
}

Dims Batching::now(Dims dims) const {
  for (Dim& d : dims) d = now(d);
  return dims;
}

bool Batching::mentions_old_symbols(const Node& node) const {
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const tenon_attr_t& attr = view.attrs[i];
    for (uint64_t k = 0; attr.kind == TENON_ATTR_DIMS && k < attr.count; ++k) {
      const Dim d(node.graph(), attr.u.dims[k]);
      if (!(now(d) == d)) return true;
    }
  }
  return false;
}

std::vector<Attr> Batching::attributes(const Node& node) const {
  const tenon_node_view_t view = node.view();
  std::vector<Attr> out;
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const tenon_attr_t& attr = view.attrs[i];
    if (attr.kind != TENON_ATTR_DIMS) {
      out.push_back(Attr(attr));
      continue;
    }
    Dims dims;
    for (uint64_t k = 0; k < attr.count; ++k) dims.push_back(Dim(node.graph(), attr.u.dims[k]));
    out.push_back(Attr(sym_text(attr.name), now(dims)));
  }
  return out;
}

void Batching::set_results(const Node& old, const Node& made, bool is_batched) {
  set_symbols(old, made);
  for (uint32_t r = 0; r < old.result_count(); ++r)
    set(old.result(r), {made.result(r), is_batched});
}

Status Batching::nodes(Builder& b, const std::vector<Node>& list) {
  for (const Node& one : list) {
    b.set_loc(one.view().loc);
    TENON_TRY(node(b, one));
    TENON_TRY(b.status());
  }
  return {};
}

Status Batching::node(Builder& b, const Node& node) {
  const tenon_op_def_t* op = op_of(node);
  if (op == nullptr) return refuse(node, "T0411", "its plugin is missing");
  if (node.view().region_count != 0) return regions(b, node);
  if (!symbols_.empty() && mentions_old_symbols(node)) {
    Builder here = Builder::before(node);
    const Node other = here.build_node(node.op(), node.operands(), attributes(node));
    TENON_TRY(here.status());
    TENON_TRY(this->node(b, other));
    for (uint32_t r = 0; r < node.result_count(); ++r) set(node.result(r), at(other.result(r)));
    return {};
  }
  if (stacks_ranks_ && op->stack != nullptr) return stack(b, node, *op);
  if (!depends(node)) return copy(b, node);
  if ((op->traits & TENON_TRAIT_ELEMENTWISE) != 0) return element_wise(b, node);
  if (op->rules != nullptr && op->rules->batch != nullptr) {
    bool is_done = false;
    TENON_TRY(by_rule(b, node, *op, &is_done));
    if (is_done) return {};
  }
  if (op->rules != nullptr && op->rules->batched != 0 && fits_roles(node, *op))
    return by_roles(b, node, *op);
  if (op->decompose != nullptr) return by_decomposition(b, node, *op);
  return by_loop(b, node);
}

Status Batching::copy(Builder& b, const Node& node) {
  std::vector<Value> operands;
  for (const Value v : node.operands()) operands.push_back(at(v).value);
  set_results(node, b.build_node(node.op(), operands, attributes(node)), false);
  return b.status();
}

Status Batching::stack(Builder& b, const Node& node, const tenon_op_def_t& op) {
  std::vector<tenon_value_t> operands, made(node.result_count(), TENON_NONE);
  for (const Value v : node.operands()) operands.push_back(batched(b, v).id());
  TENON_TRY(b.status());
  TENON_TRY(op.stack(op.self, &b.raw(), node.id(), operands.data(), made.data()));
  for (uint32_t r = 0; r < made.size(); ++r)
    set(node.result(r), {Value(node.graph(), made[r]), true});
  return {};
}

// An operand of rank 0 next to others of higher rank, such as the predicate of select, may keep it.
Status Batching::element_wise(Builder& b, const Node& node) {
  const uint32_t rank = node.result().rank();
  std::vector<Value> operands;
  for (const Value v : node.operands()) {
    const Sampled now = at(v);
    if (!v.valid() || v.rank() == rank) {
      operands.push_back(batched(b, now));
    } else if (!now.is_batched) {
      operands.push_back(now.value);
    } else {
      Dims shape = this->now(node.result().dims());
      shape.insert(shape.begin(), size_);
      operands.push_back(b.broadcast(now.value, shape, std::vector<int64_t>{0}));
    }
  }
  set_results(node, b.build_node(node.op(), operands, attributes(node)), true);
  return b.status();
}

bool Batching::fits_roles(const Node& node, const tenon_op_def_t& op) const {
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    if (at(node.operand(i)).is_batched && !in_mask(op, op.rules->batched, i)) return false;
  }
  return true;
}

Status Batching::by_roles(Builder& b, const Node& node, const tenon_op_def_t& op) {
  std::vector<Value> operands;
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    const Sampled now = at(node.operand(i));
    operands.push_back(in_mask(op, op.rules->batched, i) ? batched(b, now) : now.value);
  }
  const RoledAttributes attrs(node, op, size_);
  set_results(node, b.build_node(node.op(), operands, attrs.list()), true);
  return b.status();
}

Status Batching::by_rule(Builder& b, const Node& node, const tenon_op_def_t& op, bool* is_done) {
  std::vector<tenon_value_t> operands;
  std::vector<uint8_t> flags;
  for (const Value v : node.operands()) {
    operands.push_back(at(v).value.id());
    flags.push_back(at(v).is_batched ? 1 : 0);
  }
  std::vector<tenon_value_t> made(node.result_count(), TENON_NONE);
  std::vector<uint8_t> made_flags(node.result_count(), 0);
  TENON_TRY(op.rules->batch(op.self, &b.raw(), node.id(), operands.data(), flags.data(),
                            size_.raw(), made.data(), made_flags.data()));
  *is_done = !made.empty() && made[0] != TENON_NONE;
  for (uint32_t r = 0; *is_done && r < made.size(); ++r)
    set(node.result(r), {Value(node.graph(), made[r]), made_flags[r] != 0});
  return {};
}

// The smaller ops are built before the old node, and then copied like other nodes of the old body.
Status Batching::by_decomposition(Builder& b, const Node& node, const tenon_op_def_t& op) {
  const tenon_node_t first = next_node(node.graph());
  const Builder here = Builder::before(node);
  std::vector<tenon_value_t> made(node.result_count(), TENON_NONE);
  TENON_TRY(op.decompose(op.self, &here.raw(), node.id(), made.data()));
  TENON_TRY(nodes(b, nodes_since(node.graph(), here.raw().region, first)));
  for (uint32_t r = 0; r < made.size(); ++r) set(node.result(r), at(Value(node.graph(), made[r])));
  return {};
}

// A scan over the samples whose body is the node: for ops without a rule for samples.
Status Batching::by_loop(Builder& b, const Node& node) {
  if (!is_removable(op_of(node)) || node.view().symbol_count != 0) {
    return refuse(node, "T0411",
                  node.view().symbol_count != 0
                      ? "the sizes of its results depend on values, and may differ "
                        "from sample to sample"
                      : "it has an effect");
  }
  context_.count("looped");
  Body body(b);
  std::vector<Value> slices, inside;
  for (const Value v : node.operands()) {
    const Sampled now = at(v);
    if (now.is_batched) slices.push_back(now.value);
    inside.push_back(now.is_batched ? body.argument_of_slice(now.value) : now.value);
  }
  const Node one = body.builder().build_node(node.op(), inside, attributes(node));
  TENON_TRY(body.builder().status());
  std::vector<Value> yields;
  for (uint32_t r = 0; r < one.result_count(); ++r) yields.push_back(one.result(r));
  TENON_TRY(body.yield(yields));
  const Node made = b.build_node("scan", slices, {}, std::vector<Region>{body.region()});
  set_results(node, made, true);
  return b.status();
}

}  // namespace tenon::passes
