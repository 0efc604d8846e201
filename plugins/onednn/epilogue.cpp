#include <algorithm>
#include <optional>

#include "problem.h"

namespace tenon::onednn {
namespace {

struct Curve {
  std::string_view op;
  dnnl_alg_kind_t kind;
};
// relu is missing on purpose: the library's gives 0 for NaN.
constexpr Curve kCurves[] = {{"gelu", dnnl_eltwise_gelu_erf},
                             {"gelu_tanh", dnnl_eltwise_gelu_tanh},
                             {"silu", dnnl_eltwise_swish},
                             {"tanh", dnnl_eltwise_tanh},
                             {"logistic", dnnl_eltwise_logistic}};

std::optional<Step> unary(std::string_view op) {
  if (op == "relu") return Step{Step::kRelu};
  for (const Curve& curve : kCurves) {
    if (op == curve.op) return Step{Step::kCurve, 0, curve.kind};
  }
  return std::nullopt;
}

// A bias comes before everything else, as that of the primitive; one array is added.
std::optional<Step> step_of(const FollowStep& step, const std::vector<Step>& before) {
  if (step.kind == FollowStep::kUnary) return unary(step.op);
  if (step.kind == FollowStep::kBias)
    return before.empty() ? std::optional(Step{Step::kBias, step.operand}) : std::nullopt;
  const bool one_already =
      std::any_of(before.begin(), before.end(), [](const Step& s) { return s.kind == Step::kAdd; });
  return one_already ? std::nullopt : std::optional(Step{Step::kAdd, step.operand});
}

}  // namespace

void read_epilogue(const tenon_kernel_call_t& call, Problem* problem) {
  for (const FollowStep& follow :
       read_follow_steps(call, problem->feature_dim, problem->features())) {
    const std::optional<Step> step = step_of(follow, problem->steps);
    if (!step || problem->ends_in_relu()) return;
    problem->steps.push_back(*step);
    problem->epilogue_taken = follow.nodes;
  }
}

}  // namespace tenon::onednn
