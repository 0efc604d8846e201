#include <algorithm>
#include <map>
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

// Walks the nodes of an epilogue in order, counting operands as the call lists them.
class Reader {
 public:
  Reader(const tenon_kernel_call_t& call, Problem* problem)
      : call_(call), problem_(*problem), current_(Node(call.graph, call.anchor).result(0)) {
    made_.push_back(current_);
    next_operand_ = Node(call.graph, call.anchor).operand_count();
  }

  void read() {
    for (uint32_t i = 0; i < call_.epilogue_count && !done_; ++i) {
      const Node node(call_.graph, call_.epilogue[i]);
      const std::vector<uint32_t> places = places_of(node);
      if (node.is("broadcast") && node.operand_count() == 1 && !made_here(node.operand(0))) {
        broadcasts_[node.result(0).id()] = {node, places[0]};
        made_.push_back(node.result(0));
        continue;  // taken with the node that reads it
      }
      const std::optional<Step> step = step_of(node, places);
      if (!step) return;
      problem_.steps.push_back(*step);
      problem_.epilogue_taken = i + 1;
      made_.push_back(current_ = node.result(0));
      done_ = step->kind == Step::kRelu;
    }
  }

 private:
  struct Broadcast {
    Node node;
    uint32_t operand;
  };
  bool made_here(Value v) const { return std::find(made_.begin(), made_.end(), v) != made_.end(); }

  // For each operand of the node its place in the call; for those made in the call, none.
  std::vector<uint32_t> places_of(const Node& node) {
    std::vector<uint32_t> places;
    for (uint32_t i = 0; i < node.operand_count(); ++i)
      places.push_back(made_here(node.operand(i)) ? TENON_NONE : next_operand_++);
    return places;
  }

  std::optional<Step> step_of(const Node& node, const std::vector<uint32_t>& places) const {
    if (node.is("relu")) return Step{Step::kRelu};
    for (const Curve& curve : kCurves) {
      if (node.is(curve.op)) return Step{Step::kCurve, 0, curve.kind};
    }
    if (!node.is("add") || node.operand(0) == node.operand(1)) return std::nullopt;
    const uint32_t other = node.operand(0) == current_ ? 1 : 0;
    const auto broadcast = broadcasts_.find(node.operand(other).id());
    if (broadcast != broadcasts_.end()) return bias_of(broadcast->second);
    const bool one_already = std::any_of(problem_.steps.begin(), problem_.steps.end(),
                                         [](const Step& s) { return s.kind == Step::kAdd; });
    if (places[other] == TENON_NONE || one_already) return std::nullopt;
    return Step{Step::kAdd, places[other]};
  }

  // A vector along the out features, before everything else: the bias of the primitive.
  std::optional<Step> bias_of(const Broadcast& broadcast) const {
    const Value vector = broadcast.node.operand(0);
    if (!problem_.steps.empty() || vector.rank() != 1 ||
        vector.type().raw().dims[0] != problem_.features() || vector.dtype() != current_.dtype())
      return std::nullopt;
    const Sizes dims = broadcast.node.i64s("dims");
    const int64_t dim = dims.empty() ? int64_t{current_.rank()} - 1 : dims[0];
    if (dim != problem_.feature_dim) return std::nullopt;
    return Step{Step::kBias, broadcast.operand};
  }

  const tenon_kernel_call_t& call_;
  Problem& problem_;
  Value current_;
  std::vector<Value> made_;
  std::map<tenon_value_t, Broadcast> broadcasts_;
  uint32_t next_operand_ = 0;
  bool done_ = false;
};

}  // namespace

void read_epilogue(const tenon_kernel_call_t& call, Problem* problem) {
  Reader(call, problem).read();
}

}  // namespace tenon::onednn
