// libFuzzer target: any bytes as one call of a standard op, in the form of examples. Runs
// inference, the constraints and, if numbers are small enough to end soon, the reference on unusual
// attributes, dims and literals.
#include <algorithm>
#include <cstdint>

#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/ir/dims/expression.h"
#include "core/op/evaluate.h"
#include "test_host.h"

namespace {

using namespace tenon;

// Attributes determine how long an evaluation takes: windows, samples, repetitions.
bool is_small(const tenon_attr_t& attr) {
  constexpr int64_t kMost = 1 << 10;
  const auto small = [](int64_t v) { return v >= -kMost && v <= kMost; };
  switch (attr.kind) {
    case TENON_ATTR_I64:
      return small(attr.u.i);
    case TENON_ATTR_I64S:
      return std::all_of(attr.u.is, attr.u.is + attr.count, small);
    case TENON_ATTR_DIMS:
      return std::all_of(attr.u.dims, attr.u.dims + attr.count, small);
    default:
      return true;
  }
}

void evaluate(const ir::Expression& e, ir::Node node) {
  if (!e.regions.empty() || !std::all_of(e.attrs.begin(), e.attrs.end(), is_small)) return;
  std::vector<std::vector<int64_t>> shapes(e.operands.size());
  std::vector<tenon_array_t> inputs;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    tenon_array_t array = {};
    if (e.operands[i].value != ir::kNone) {
      if (!e.operands[i].blob) return;
      Result<tenon_array_t> constant =
          op::constant_array(*e.graph, e.operands[i].value, &shapes[i]);
      if (!constant.ok()) return;
      array = *constant;
    }
    inputs.push_back(array);
  }
  for (const op::Meaning meaning :
       {op::Meaning::kReference, op::Meaning::kScalar, op::Meaning::kDecomposition})
    (void)op::evaluate(*e.graph, node, {}, inputs, meaning);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const std::string problem = register_test_ops();
  TENON_CHECK(problem.empty(), "{}", problem);
  set_limit(Limit::kElements, 1 << 12);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Result<ir::Expression> expression =
      ir::parse_expression({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!expression.ok()) return 0;
  const Result<ir::Node> node = ir::build_expression(*expression);
  if (!node.ok()) return 0;
  // Assumptions about a symbol, made by the first inference, may let the second infer more; regions
  // may then have another number of symbols.
  const Status verified = expression->graph->verify();
  TENON_CHECK(verified.ok() || !expression->regions.empty(), "{}", verified.text());
  evaluate(*expression, *node);
  return 0;
}
