// Calls on several samples.
#include "batch.h"
#include "loops.h"

namespace tenon::passes {
namespace {

bool is_batched(const std::vector<Sampled>& values, size_t i) {
  return values[i].is_batched;
}

// The positions in a list of the values that can have derivatives.
std::vector<uint32_t> differentiable(const std::vector<Value>& values) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (is_differentiable(values[i])) out.push_back(i);
  }
  return out;
}

}  // namespace

Status Batching::call(Builder& b, const Node& node) {
  std::vector<bool> flags;
  std::vector<Value> operands, results;
  for (const Value v : node.operands()) {
    flags.push_back(at(v).is_batched);
    operands.push_back(at(v).value);
  }
  for (uint32_t r = 0; r < node.result_count(); ++r) results.push_back(node.result(r));
  const std::string rules = node.text("rules");
  const bool is_custom = rules != "none";
  const bool any = depends(node);
  std::vector<Region> made;
  std::vector<Sampled> yields;
  const auto region = [&](Region old, const std::vector<bool>& given, const auto& give) -> Status {
    Builder inside = b;
    std::vector<Value> values;
    yields.clear();
    TENON_TRY(body(b, old, given, &inside, &yields));
    for (uint32_t i = 0; i < yields.size(); ++i) values.push_back(give(inside, i));
    TENON_TRY(inside.status());
    made.push_back(Region(node.graph(), inside.raw().region));
    return yield(made.back(), values);
  };
  // If the call has rules of its own, all its results have samples as soon as one operand has them,
  // so that its regions agree in their types. Cotangents and tangents have samples where their
  // values have them.
  const auto of_result = [&](Builder& at, uint32_t i) {
    const bool is_result = i < results.size();
    if (is_custom && is_result && any) yields[i] = {batched(at, yields[i]), true};
    return yields[i].value;
  };
  const std::vector<Region> olds = regions_of(node);
  TENON_TRY(region(olds[0], flags, of_result));
  const std::vector<Sampled> first = yields;
  const std::vector<uint32_t> own = differentiable(node.operands());
  if (rules == "pull" || rules == "both") {
    TENON_TRY(region(olds[1], flags, of_result));
    std::vector<bool> given;
    for (size_t i = results.size(); i < yields.size(); ++i) given.push_back(is_batched(yields, i));
    given.insert(given.end(), differentiable(results).size(), any);
    // The cotangent of a value that all samples share is the sum of their cotangents.
    TENON_TRY(region(olds[2], given, [&](Builder& at, uint32_t i) {
      if (!any) return yields[i].value;
      const Value all = batched(at, yields[i]);
      if (flags[own[i]]) return all;
      return at.build("reduce_sum", {all}, {{"dims", std::vector<int64_t>{0}}});
    }));
  }
  if (rules == "jvp" || rules == "both") {
    std::vector<bool> given = flags;
    for (const uint32_t i : own) given.push_back(flags[i]);
    TENON_TRY(region(olds.back(), given, [&](Builder& at, uint32_t i) {
      return any ? batched(at, yields[i]) : yields[i].value;
    }));
  }
  const Node built = b.build_node("call", operands, attributes(node), made);
  for (uint32_t r = 0; r < results.size() && b.status().ok(); ++r)
    set(results[r], {built.result(r), first[r].is_batched});
  return b.status();
}

}  // namespace tenon::passes
