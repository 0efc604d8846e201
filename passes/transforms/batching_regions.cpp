// Control flow on several samples.
#include <algorithm>

#include "batch.h"
#include "loops.h"
#include "regions.h"

namespace tenon::passes {
namespace {

// Swaps the first two dims: a scan cuts along dim 0, and samples are dim 0 everywhere else.
Value swapped(Builder& b, Value v) {
  std::vector<int64_t> perm = {1, 0};
  for (uint32_t i = 2; i < v.rank(); ++i) perm.push_back(i);
  return b.build("transpose", {v}, {{"perm", perm}});
}

// Whether a branch may be computed for all samples, also for those that do not choose it: nothing
// in it is expensive, can fail or can run forever.
bool is_cheap(Region region) {
  for (const Node& node : region.nodes()) {
    const tenon_op_def_t* op = op_of(node);
    if (!has_trait(op, TENON_TRAIT_ELEMENTWISE) && !has_trait(op, TENON_TRAIT_SHAPE_ONLY) &&
        !node.is("pad") && !node.is("transpose"))
      return false;
  }
  return true;
}

}  // namespace

// The values in a region that are batched if its arguments are batched according to these flags.
ValueSet Batching::inside_batched(Region body, const std::vector<bool>& flags) const {
  ValueSet out;
  const std::vector<Value> arguments = body.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (flags[i]) out.insert(arguments[i].id());
  }
  const auto is = [&](Value v) { return v.valid() && (out.contains(v.id()) || at(v).is_batched); };
  for (const Node& node : body.nodes()) {
    bool any = false;
    for (const Value v : node.operands()) any = any || is(v);
    for (const Value v : captures_of(node)) any = any || is(v);
    for (uint32_t r = 0; any && r < node.result_count(); ++r) out.insert(node.result(r).id());
  }
  return out;
}

bool Batching::yields_batched(Region body, const std::vector<bool>& flags, uint32_t yield) const {
  const Value v = body.yields()[yield];
  return inside_batched(body, flags).contains(v.id()) || at(v).is_batched;
}

// Which arguments of a loop's body are batched. A carried value is if it is after some iteration.
std::vector<bool> Batching::carried_flags(const Node& node, Region body, uint32_t carried) const {
  std::vector<bool> flags;
  for (const Value v : node.operands()) flags.push_back(at(v).is_batched);
  for (bool grew = true; grew;) {
    grew = false;
    for (uint32_t i = 0; i < carried; ++i) {
      if (flags[i] || !yields_batched(body, flags, i)) continue;
      flags[i] = grew = true;
    }
  }
  return flags;
}

Status Batching::body(Builder& b, Region old, const std::vector<bool>& flags, Builder* inside,
                      std::vector<Sampled>* yields) {
  Body made(b);
  const std::vector<Value> arguments = old.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    Dims dims = now(arguments[i].dims());
    if (flags[i]) dims.insert(dims.begin(), size_);
    Value v;
    TENON_TRY(argument(made.region(), {arguments[i].dtype(), dims}, "", &v));
    set(arguments[i], {v, flags[i]});
  }
  TENON_TRY(nodes(made.builder(), old.nodes()));
  for (const Value v : old.yields()) yields->push_back(at(v));
  *inside = made.builder();
  return inside->status();
}

Status Batching::regions(Builder& b, const Node& node) {
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.region_count; ++i) {
    if (Region(node.graph(), view.regions[i]).view().symbol_count != 0)
      return refuse_sizes(node, "the size of a value that it carries changes");
  }
  if (node.is("scan")) return scan(b, node);
  if (node.is("while")) return repeat(b, node);
  if (node.is("switch")) return branch(b, node);
  if (node.is("call")) return call(b, node);
  return refuse(node, "T0411", "it has regions, and no transform knows it");
}

Status Batching::scan(Builder& b, const Node& node) {
  const auto carried = static_cast<uint32_t>(node.i64("carry"));
  const Region old(node.graph(), node.view().regions[0]);
  const std::vector<bool> flags = carried_flags(node, old, carried);
  std::vector<Value> operands, results;
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    const Sampled now = at(node.operand(i));
    if (i < carried)
      operands.push_back(flags[i] ? batched(b, now) : now.value);
    else
      operands.push_back(flags[i] ? swapped(b, now.value) : now.value);
  }
  Builder inside = b;
  std::vector<Sampled> yields;
  TENON_TRY(body(b, old, flags, &inside, &yields));
  for (uint32_t i = 0; i < yields.size(); ++i)
    results.push_back(i < carried && flags[i] ? batched(inside, yields[i]) : yields[i].value);
  TENON_TRY(inside.status());
  const Region region(node.graph(), inside.raw().region);
  TENON_TRY(yield(region, results));
  const Node made = b.build_node("scan", operands, attributes(node), std::vector<Region>{region});
  set_symbols(node, made);
  for (uint32_t r = 0; r < node.result_count() && b.status().ok(); ++r) {
    if (r < carried)
      set(node.result(r), {made.result(r), flags[r]});
    else
      set(node.result(r), {yields[r].is_batched ? swapped(b, made.result(r)) : made.result(r),
                           yields[r].is_batched});
  }
  return b.status();
}

// If the condition differs between samples, the loop runs until it is false for all of them;
// samples that have ended keep their values.
Status Batching::repeat(Builder& b, const Node& node) {
  const uint32_t carried = node.operand_count();
  const tenon_node_view_t view = node.view();
  const Region test(node.graph(), view.regions[0]), old(node.graph(), view.regions[1]);
  std::vector<bool> flags = carried_flags(node, old, carried);
  const bool differs = yields_batched(test, flags, 0);
  if (differs) flags.assign(carried, true);
  if (differs && node.result_count() > carried)
    return refuse_sizes(node, "it collects values, and its samples end at different iterations");
  std::vector<Value> operands, next;
  for (uint32_t i = 0; i < carried; ++i)
    operands.push_back(flags[i] ? batched(b, node.operand(i)) : at(node.operand(i)).value);

  Builder inside = b, testing = b;
  std::vector<Sampled> holds, yields;
  TENON_TRY(body(b, test, flags, &testing, &holds));
  const Value any = !differs ? holds[0].value
                             : testing.build("reduce_or", {batched(testing, holds[0])},
                                             {{"dims", std::vector<int64_t>{0}}});
  TENON_TRY(testing.status());
  const Region condition(node.graph(), testing.raw().region);
  TENON_TRY(yield(condition, std::vector<Value>{any}));

  TENON_TRY(body(b, old, flags, &inside, &yields));
  const std::vector<Value> begun = Region(node.graph(), inside.raw().region).arguments();
  Value goes_on;
  if (differs) {  // the condition again, on what the iteration began with
    const std::vector<Value> arguments = test.arguments();
    for (uint32_t i = 0; i < carried; ++i) set(arguments[i], {begun[i], true});
    TENON_TRY(nodes(inside, test.nodes()));
    goes_on = batched(inside, test.yields()[0]);
  }
  for (uint32_t i = 0; i < yields.size(); ++i) {
    Value v = i < carried && flags[i] ? batched(inside, yields[i]) : yields[i].value;
    if (differs) {
      const Value mask =
          v.rank() == 1 ? goes_on : inside.broadcast(goes_on, v.dims(), std::vector<int64_t>{0});
      v = inside.build("select", {mask, v, begun[i]});
    }
    next.push_back(v);
  }
  TENON_TRY(inside.status());
  const Region region(node.graph(), inside.raw().region);
  TENON_TRY(yield(region, next));
  const Node made =
      b.build_node("while", operands, attributes(node), std::vector<Region>{condition, region});
  set_symbols(node, made);
  for (uint32_t r = 0; r < node.result_count() && b.status().ok(); ++r) {
    if (r < carried)
      set(node.result(r), {made.result(r), flags[r]});
    else
      set(node.result(r), {yields[r].is_batched ? swapped(b, made.result(r)) : made.result(r),
                           yields[r].is_batched});
  }
  return b.status();
}

Status Batching::branch(Builder& b, const Node& node) {
  const tenon_node_view_t view = node.view();
  std::vector<Region> olds;
  for (uint32_t i = 0; i < view.region_count; ++i)
    olds.push_back(Region(node.graph(), view.regions[i]));
  std::vector<bool> flags;
  for (uint32_t i = 1; i < node.operand_count(); ++i)
    flags.push_back(at(node.operand(i)).is_batched);
  if (at(node.operand(0)).is_batched) {
    const bool cheap = node.operand(0).dtype() == TENON_PRED && view.symbol_count == 0 &&
                       std::all_of(olds.begin(), olds.end(), is_cheap);
    return cheap ? chosen(b, node) : sample_by_sample(b, node);
  }
  std::vector<Value> operands = {at(node.operand(0)).value};
  for (uint32_t i = 1; i < node.operand_count(); ++i) operands.push_back(at(node.operand(i)).value);
  // A yield is batched in all branches if it is in one.
  std::vector<bool> results(node.result_count());
  for (const Region& old : olds) {
    for (uint32_t r = 0; r < results.size(); ++r)
      results[r] = results[r] || yields_batched(old, flags, r);
  }
  std::vector<Region> made;
  for (const Region& old : olds) {
    Builder inside = b;
    std::vector<Sampled> yields;
    std::vector<Value> values;
    TENON_TRY(body(b, old, flags, &inside, &yields));
    for (uint32_t r = 0; r < yields.size(); ++r)
      values.push_back(results[r] ? batched(inside, yields[r]) : yields[r].value);
    TENON_TRY(inside.status());
    made.push_back(Region(node.graph(), inside.raw().region));
    TENON_TRY(yield(made.back(), values));
  }
  const Node built = b.build_node("switch", operands, attributes(node), made);
  set_symbols(node, built);
  for (uint32_t r = 0; r < results.size() && b.status().ok(); ++r)
    set(node.result(r), {built.result(r), results[r]});
  return b.status();
}

// Computes both branches for all samples, and selects by each sample's predicate.
Status Batching::chosen(Builder& b, const Node& node) {
  const Value predicate = at(node.operand(0)).value;
  std::vector<std::vector<Value>> results;
  const tenon_node_view_t view = node.view();
  const std::vector<tenon_region_t> regions(view.regions, view.regions + view.region_count);
  for (const tenon_region_t id : regions) {
    const Region old(node.graph(), id);
    const std::vector<Value> arguments = old.arguments();
    for (uint32_t i = 0; i < arguments.size(); ++i) set(arguments[i], at(node.operand(i + 1)));
    TENON_TRY(nodes(b, old.nodes()));
    std::vector<Value>& values = results.emplace_back();
    for (const Value v : old.yields()) values.push_back(batched(b, v));
  }
  for (uint32_t r = 0; r < node.result_count(); ++r) {
    const Value no = results[0][r], yes = results[1][r];
    const Value mask =
        yes.rank() == 1 ? predicate : b.broadcast(predicate, yes.dims(), std::vector<int64_t>{0});
    set(node.result(r), {b.build("select", {mask, yes, no}), true});
  }
  return b.status();
}

// A scan over the samples, in whose body each sample takes its own branch.
Status Batching::sample_by_sample(Builder& b, const Node& node) {
  if (node.view().symbol_count != 0)
    return refuse_sizes(node, "the sizes of its results differ between branches");
  context_.count("looped");
  Body one(b);
  std::vector<Value> slices, arguments;
  std::vector<Region> regions;
  const auto enter = [&](Value v) {
    const Sampled now = at(v);
    if (!now.is_batched) return now.value;
    slices.push_back(now.value);
    return one.argument_of_slice(now.value);
  };
  for (const Value v : node.operands()) arguments.push_back(enter(v));
  const tenon_node_view_t view = node.view();
  const std::vector<tenon_region_t> olds(view.regions, view.regions + view.region_count);
  std::vector<std::vector<Value>> captured;
  for (const tenon_region_t id : olds) {
    const tenon_region_view_t old = Region(node.graph(), id).view();
    const std::vector<tenon_value_t> list(old.captures, old.captures + old.capture_count);
    std::vector<Value>& entered = captured.emplace_back();
    for (const tenon_value_t v : list) entered.push_back(enter(Value(node.graph(), v)));
  }
  for (size_t k = 0; k < olds.size(); ++k) {
    Body branch_body(one.builder());
    std::vector<Value> values, made;
    for (uint32_t i = 1; i < node.operand_count(); ++i)
      values.push_back(branch_body.argument_like(node.operand(i)));
    TENON_TRY(clone_region(branch_body.builder(), Region(node.graph(), olds[k]), values, &made,
                           captured[k]));
    TENON_TRY(branch_body.yield(made));
    regions.push_back(branch_body.region());
  }
  const Node inner = one.builder().build_node("switch", arguments, attributes(node), regions);
  TENON_TRY(one.builder().status());
  std::vector<Value> yields;
  for (uint32_t r = 0; r < inner.result_count(); ++r) yields.push_back(inner.result(r));
  TENON_TRY(one.yield(yields));
  const Node made = b.build_node("scan", slices, {}, std::vector<Region>{one.region()});
  set_results(node, made, true);
  return b.status();
}

}  // namespace tenon::passes
