// What a call of tenon.kernels/1 asks for, in the terms of libraries: a product of matrices with
// strides, and the steps of its epilogue.
//
// Users: plugins/onednn, plugins/cublaslt.
#ifndef TENON_CPP_KERNEL_CALL_HPP_
#define TENON_CPP_KERNEL_CALL_HPP_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenon/abi/kernels.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::inline sdk {

// Libraries count in 32 bits. UNIMPLEMENTED with a reason.
inline Status check_kernel_dims(const tenon_type_t& type) {
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] < 0)
      return fail(TENON_UNIMPLEMENTED, "sizes that are known before the run only");
    if (type.dims[i] == 0) return fail(TENON_UNIMPLEMENTED, "nothing to compute in an empty array");
    if (type.dims[i] > std::numeric_limits<int32_t>::max())
      return fail(TENON_UNIMPLEMENTED, "dims below 2^31 only");
  }
  return {};
}

// One operand of dot_general as a matrix, or a batch of them: its free dims as one, and the dim
// that is summed over. Strides in elements; one of free_stride and sum_stride is 1.
struct ProductSide {
  int64_t batch = 1, batch_stride = 0, free = 1, free_stride = 1, sum = 1, sum_stride = 1;
  size_t free_dims = 0;
};

// type: dense, of known dims. UNIMPLEMENTED with a reason where it is not such a matrix.
inline Status read_product_side(const tenon_type_t& type, const std::vector<int64_t>& batch,
                                const std::vector<int64_t>& sum, ProductSide* out) {
  const size_t first = batch.size(), rank = type.rank;
  for (size_t i = 0; i < first; ++i) {
    if (batch[i] != static_cast<int64_t>(i))
      return fail(TENON_UNIMPLEMENTED, "batch dims that come first only");
  }
  if (sum.size() != 1) return fail(TENON_UNIMPLEMENTED, "sums over one dim only");
  const auto at = static_cast<size_t>(sum[0]);
  if (at != first && at + 1 != rank)
    return fail(TENON_UNIMPLEMENTED, "sums over the first dim after the batch, or the last, only");
  *out = {};
  out->batch_stride = 1;
  for (size_t i = 0; i < rank; ++i) (i < first ? out->batch : out->batch_stride) *= type.dims[i];
  out->sum = type.dims[at];
  out->free_dims = rank - first - 1;
  out->free = out->batch_stride / out->sum;
  out->sum_stride = at + 1 == rank ? 1 : out->free;
  out->free_stride = at + 1 == rank ? out->sum : 1;
  return {};
}

// A step of an epilogue.
struct FollowStep {
  enum Kind {
    kBias,   // plus a vector along the features, broadcast
    kAdd,    // plus an array of the result's shape
    kUnary,  // an op of one operand
  } kind;
  uint32_t operand = 0;  // of the call; of kBias and kAdd
  std::string op;        // of kUnary
  uint32_t nodes = 0;    // of the epilogue, from its front to this step
};

namespace detail {

// Walks the nodes of an epilogue in order, counting operands as the call lists them.
class FollowReader {
 public:
  FollowReader(const tenon_kernel_call_t& call, int64_t feature_dim, int64_t features)
      : call_(call),
        feature_dim_(feature_dim),
        features_(features),
        current_(Node(call.graph, call.anchor).result(0)) {
    made_.push_back(current_);
    next_operand_ = Node(call.graph, call.anchor).operand_count();
  }

  std::vector<FollowStep> read() {
    std::vector<FollowStep> steps;
    for (uint32_t i = 0; i < call_.epilogue_count; ++i) {
      const Node node(call_.graph, call_.epilogue[i]);
      const std::vector<uint32_t> places = places_of(node);
      if (node.is("broadcast") && node.operand_count() == 1 && !made_here(node.operand(0))) {
        broadcasts_[node.result(0).id()] = {node, places[0]};
        made_.push_back(node.result(0));
        continue;  // taken with the node that reads it
      }
      std::optional<FollowStep> step = step_of(node, places);
      if (!step) break;
      step->nodes = i + 1;
      steps.push_back(std::move(*step));
      made_.push_back(current_ = node.result(0));
    }
    return steps;
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

  std::optional<FollowStep> step_of(const Node& node, const std::vector<uint32_t>& places) const {
    if (node.operand_count() == 1) return FollowStep{FollowStep::kUnary, 0, std::string(node.op())};
    if (!node.is("add") || node.operand(0) == node.operand(1)) return std::nullopt;
    const uint32_t other = node.operand(0) == current_ ? 1 : 0;
    const auto broadcast = broadcasts_.find(node.operand(other).id());
    if (broadcast != broadcasts_.end()) return bias_of(broadcast->second);
    if (places[other] == TENON_NONE) return std::nullopt;
    return FollowStep{FollowStep::kAdd, places[other], {}};
  }

  std::optional<FollowStep> bias_of(const Broadcast& broadcast) const {
    const Value vector = broadcast.node.operand(0);
    if (vector.rank() != 1 || vector.type().raw().dims[0] != features_ ||
        vector.dtype() != current_.dtype())
      return std::nullopt;
    const std::vector<int64_t> dims = broadcast.node.i64s("dims");
    const int64_t dim = dims.empty() ? int64_t{current_.rank()} - 1 : dims[0];
    if (dim != feature_dim_) return std::nullopt;
    return FollowStep{FollowStep::kBias, broadcast.operand, {}};
  }

  const tenon_kernel_call_t& call_;
  const int64_t feature_dim_, features_;
  Value current_;
  std::vector<Value> made_;
  std::map<tenon_value_t, Broadcast> broadcasts_;
  uint32_t next_operand_ = 0;
};

}  // namespace detail

// The steps of the epilogue, from the front, as far as they are of these kinds. feature_dim: of the
// anchor's result, along which a bias goes, with so many features; -1: there is none.
inline std::vector<FollowStep> read_follow_steps(const tenon_kernel_call_t& call,
                                                 int64_t feature_dim, int64_t features) {
  return detail::FollowReader(call, feature_dim, features).read();
}

}  // namespace tenon::inline sdk
#endif
