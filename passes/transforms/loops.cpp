#include "loops.h"

#include <algorithm>

#include "regions.h"

namespace tenon::passes {
namespace {

// The parts of a scan or a while.
struct Loop {
  Node node;
  bool is_scan;
  Region body;
  uint32_t carried;
  std::vector<Value> operands, arguments, yields, captures;

  explicit Loop(const Node& n) : node(n), is_scan(n.is("scan")) {
    const tenon_node_view_t view = n.view();
    body = Region(n.graph(), view.regions[is_scan ? 0 : 1]);
    operands = n.operands();
    carried =
        is_scan ? static_cast<uint32_t>(n.i64("carry")) : static_cast<uint32_t>(operands.size());
    arguments = body.arguments();
    yields = body.yields();
    captures = captures_of(n);
  }
  // Which carried values depend on what varies: at first, or after an iteration.
  std::vector<bool> varied_carries(const ValueSet& varied) const {
    std::vector<bool> out(carried);
    for (uint32_t i = 0; i < carried; ++i) out[i] = varied.contains(operands[i].id());
    const std::vector<Node> nodes = body.nodes();
    for (bool grew = true; grew;) {
      ValueSet inside;
      for (uint32_t i = 0; i < operands.size(); ++i) {
        const bool is = i < carried ? out[i] : varied.contains(operands[i].id());
        if (is && is_differentiable(arguments[i])) inside.insert(arguments[i].id());
      }
      for (const Value v : captures) {
        if (varied.contains(v.id())) inside.insert(v.id());
      }
      mark_varied(nodes, &inside);
      grew = false;
      for (uint32_t i = 0; i < carried; ++i) {
        if (out[i] || !inside.contains(yields[i].id())) continue;
        out[i] = grew = true;
      }
    }
    return out;
  }
};

std::vector<uint32_t> places(const std::vector<bool>& flags, const std::vector<Value>& values) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < flags.size(); ++i) {
    if (flags[i] && is_differentiable(values[i])) out.push_back(i);
  }
  return out;
}

Value or_zeros(Builder& b, Value v, Value like) {
  return v.valid() ? v : zeros_like(b, like);
}

// ---- Forwards ----

// The condition of a while takes all carried values, so also the tangents, which it does not use.
Status wider_condition(Builder& at, const Loop& loop, const std::vector<uint32_t>& with_tangent,
                       std::vector<Region>* regions) {
  Body condition(at);
  std::vector<Value> arguments, yields;
  for (const Value v : loop.operands) arguments.push_back(condition.argument_like(v));
  for (const uint32_t i : with_tangent) (void)condition.argument_like(loop.operands[i]);
  const Region old(loop.node.graph(), loop.node.view().regions[0]);
  TENON_TRY(clone_region(condition.builder(), old, arguments, &yields));
  TENON_TRY(condition.yield(yields));
  regions->push_back(condition.region());
  return {};
}

struct PushedBody {
  Region region;
  std::vector<uint32_t> collected;  // yields after the carried ones that have tangents
};

Status push_body(Builder& at, const Loop& loop, const std::vector<uint32_t>& with_tangent,
                 const std::vector<uint32_t>& cut, const ValueMap& tangents, PushedBody* out) {
  Body body(at);
  std::vector<Value> arguments, yields;
  ValueMap inside;
  for (uint32_t i = 0; i < loop.carried; ++i)
    arguments.push_back(body.argument_like(loop.arguments[i]));
  for (const uint32_t i : with_tangent)
    inside[arguments[i].id()] = body.argument_like(loop.arguments[i]);
  for (size_t i = loop.carried; i < loop.operands.size(); ++i)
    arguments.push_back(body.argument_like(loop.arguments[i]));
  for (const uint32_t i : cut) inside[arguments[i].id()] = body.argument_like(loop.arguments[i]);
  TENON_TRY(clone_region(body.builder(), loop.body, arguments, &yields));
  TENON_TRY(body.yield(yields));
  for (const Value v : loop.captures) {
    if (tangent_of(tangents, v).valid()) inside[v.id()] = tangent_of(tangents, v);
  }
  TENON_TRY(push_nodes(body.builder(), body.region().nodes(), yields, &inside));
  yields = body.region().yields();  // nested loops were replaced
  std::vector<Value> wider(yields.begin(), yields.begin() + loop.carried);
  for (const uint32_t i : with_tangent)
    wider.push_back(or_zeros(body.builder(), tangent_of(inside, yields[i]), yields[i]));
  wider.insert(wider.end(), yields.begin() + loop.carried, yields.end());
  for (uint32_t i = loop.carried; i < yields.size(); ++i) {
    const Value tangent = tangent_of(inside, yields[i]);
    if (!tangent.valid()) continue;
    out->collected.push_back(i);
    wider.push_back(tangent);
  }
  out->region = body.region();
  return body.yield(wider);
}

// ---- Backwards ----

// The type that a sum over iterations is kept in, so that it is rounded once.
tenon_dtype_t sum_type(Value v) {
  return v.dtype() == TENON_F16 || v.dtype() == TENON_BF16 ? TENON_F32 : v.dtype();
}

// The loop, which also yields the carried values that each iteration began with.
Status with_starts(const Loop& loop, Node* out) {
  Builder at = Builder::before(loop.node);
  std::vector<Region> regions;
  if (!loop.is_scan) TENON_TRY(wider_condition(at, loop, {}, &regions));
  Body body(at);
  std::vector<Value> arguments, yields;
  for (const Value v : loop.arguments) arguments.push_back(body.argument_like(v));
  TENON_TRY(clone_region(body.builder(), loop.body, arguments, &yields));
  yields.insert(yields.end(), arguments.begin(), arguments.begin() + loop.carried);
  TENON_TRY(body.yield(yields));
  regions.push_back(body.region());
  *out = at.build_node(loop.node.op(), loop.operands, attributes_of(loop.node), regions);
  return at.status();
}

// Inputs of the scan from the last iteration to the first.
struct Backward {
  std::vector<uint32_t> carries;  // carried values with a cotangent
  std::vector<Value> captures;    // of the body, with a cotangent
  std::vector<uint32_t> cut;      // operands after the carried ones, with a cotangent
  std::vector<Value> starts;      // carried values at the beginning of each iteration
  std::vector<Value> slices;      // operands after the carried ones
  std::vector<uint32_t> given;    // yields after the carried ones that have a cotangent
  std::vector<Value> given_cotangents;
};

Status pull_body(Builder& at, const Loop& loop, const Backward& back, Region* out) {
  Body body(at);
  std::vector<Value> carried, captured, starts, slices, given, yields;
  for (const uint32_t i : back.carries) carried.push_back(body.argument_like(loop.arguments[i]));
  for (const Value v : back.captures) captured.push_back(body.argument_as(v, sum_type(v)));
  for (const Value v : back.starts) starts.push_back(body.argument_of_slice(v));
  for (const Value v : back.slices) slices.push_back(body.argument_of_slice(v));
  for (const Value v : back.given_cotangents) given.push_back(body.argument_of_slice(v));
  std::vector<Value> arguments = starts;
  arguments.insert(arguments.end(), slices.begin(), slices.end());
  TENON_TRY(clone_region(body.builder(), loop.body, arguments, &yields));
  TENON_TRY(body.yield(yields));
  const std::vector<Node> nodes = body.region().nodes();
  ValueSet varied;
  for (const uint32_t i : back.carries) varied.insert(arguments[i].id());
  for (const uint32_t i : back.cut) varied.insert(arguments[i].id());
  for (const Value v : back.captures) varied.insert(v.id());
  mark_varied(nodes, &varied);
  Cotangents sums(body.builder());
  for (size_t k = 0; k < carried.size(); ++k) sums.add(yields[back.carries[k]], carried[k]);
  for (size_t k = 0; k < given.size(); ++k) sums.add(yields[back.given[k]], given[k]);
  TENON_TRY(sums.walk(nodes, varied));
  std::vector<Value> results;
  Builder& b = body.builder();
  for (const uint32_t i : back.carries)
    results.push_back(or_zeros(b, sums.of(arguments[i]), arguments[i]));
  for (size_t k = 0; k < captured.size(); ++k) {
    const Value more = sums.of(back.captures[k]);
    results.push_back(more.valid()
                          ? b.build("add", {captured[k], b.convert(more, captured[k].dtype())})
                          : captured[k]);
  }
  for (const uint32_t i : back.cut)
    results.push_back(or_zeros(b, sums.of(arguments[i]), arguments[i]));
  *out = body.region();
  return body.yield(results);
}

}  // namespace

Status push_loop(Builder& b, const Node& node, ValueMap* tangents) {
  const Loop loop(node);
  TENON_TRY(require_fixed_sizes(node, loop.body));
  ValueSet varied;
  for (const auto& [id, tangent] : *tangents) {
    if (tangent.valid()) varied.insert(id);
  }
  const auto with_tangent = places(loop.varied_carries(varied), loop.arguments);
  std::vector<uint32_t> cut;
  for (uint32_t i = loop.carried; i < loop.operands.size(); ++i) {
    if (tangent_of(*tangents, loop.operands[i]).valid()) cut.push_back(i);
  }
  std::vector<Region> regions;
  if (!loop.is_scan) TENON_TRY(wider_condition(b, loop, with_tangent, &regions));
  PushedBody pushed;
  TENON_TRY(push_body(b, loop, with_tangent, cut, *tangents, &pushed));
  regions.push_back(pushed.region);

  std::vector<Value> operands(loop.operands.begin(), loop.operands.begin() + loop.carried);
  for (const uint32_t i : with_tangent)
    operands.push_back(or_zeros(b, tangent_of(*tangents, loop.operands[i]), loop.operands[i]));
  operands.insert(operands.end(), loop.operands.begin() + loop.carried, loop.operands.end());
  for (const uint32_t i : cut) operands.push_back(tangent_of(*tangents, loop.operands[i]));
  std::vector<Attr> attrs = attributes_of(node, {"carry"});
  const auto more = static_cast<uint32_t>(with_tangent.size());
  if (loop.is_scan) attrs.push_back(Attr("carry", loop.carried + more));
  const Node made = b.build_node(node.op(), operands, attrs, regions);
  TENON_TRY(b.status());

  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < loop.yields.size(); ++i)
    order.push_back(i < loop.carried ? i : i + more);
  for (uint32_t k = 0; k < more; ++k)
    (*tangents)[made.result(with_tangent[k]).id()] = made.result(loop.carried + k);
  for (uint32_t k = 0; k < pushed.collected.size(); ++k) {
    const auto total = static_cast<uint32_t>(loop.yields.size());
    (*tangents)[made.result(pushed.collected[k] + more).id()] = made.result(total + more + k);
  }
  return replace_node(node, made, order);
}

Status pull_loop(Builder& b, const Node& node, const ValueSet& varied,
                 std::span<const Value> cotangents, Cotangents* sums) {
  Loop loop(node);
  TENON_TRY(require_fixed_sizes(node, loop.body));
  Backward back;
  back.carries = places(loop.varied_carries(varied), loop.arguments);
  for (const Value v : loop.captures) {
    const auto known = std::find(back.captures.begin(), back.captures.end(), v);
    if (varied.contains(v.id()) && known == back.captures.end()) back.captures.push_back(v);
  }
  for (uint32_t i = loop.carried; i < loop.operands.size(); ++i) {
    back.slices.push_back(loop.operands[i]);
    if (varied.contains(loop.operands[i].id())) back.cut.push_back(i);
  }
  for (uint32_t i = loop.carried; i < cotangents.size(); ++i) {
    if (!cotangents[i].valid()) continue;
    back.given.push_back(i);
    back.given_cotangents.push_back(cotangents[i]);
  }
  Node now = node;
  if (loop.carried != 0) {
    TENON_TRY(with_starts(loop, &now));
    TENON_TRY(replace_node(node, now));
    loop = Loop(now);
    for (uint32_t i = 0; i < loop.carried; ++i)
      back.starts.push_back(
          now.result(static_cast<uint32_t>(loop.yields.size()) - loop.carried + i));
  }
  Region region;
  TENON_TRY(pull_body(b, loop, back, &region));

  std::vector<Value> operands;
  for (const uint32_t i : back.carries)
    operands.push_back(or_zeros(b, cotangents[i], now.result(i)));
  for (const Value v : back.captures) operands.push_back(b.full(sum_type(v), v.dims(), 0));
  const auto carried = static_cast<int64_t>(operands.size());
  for (const auto* list : {&back.starts, &back.slices, &back.given_cotangents})
    operands.insert(operands.end(), list->begin(), list->end());
  const bool reverse = loop.is_scan && now.i64("reverse") != 0;
  const Node made = b.build_node(
      "scan", operands, std::vector<Attr>{{"carry", carried}, {"reverse", reverse ? 0 : 1}},
      std::vector<Region>{region});
  TENON_TRY(b.status());
  uint32_t at = 0;
  for (const uint32_t i : back.carries) sums->add(loop.operands[i], made.result(at++));
  for (const Value v : back.captures) sums->add(v, b.convert(made.result(at++), v.dtype()));
  for (const uint32_t i : back.cut) sums->add(loop.operands[i], made.result(at++));
  return {};
}

}  // namespace tenon::passes
