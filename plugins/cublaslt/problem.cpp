#include "problem.h"

#include <tenon/cpp/likely_size.hpp>
#include <tenon/cpp/plugin.hpp>

#include <limits>

namespace tenon::cublaslt {
namespace {

uint64_t bytes_of(DataType type) {
  return type == kF32 ? 4 : 2;
}

bool read_type(tenon_dtype_t dtype, DataType* out) {
  if (dtype != TENON_F32 && dtype != TENON_F16 && dtype != TENON_BF16) return false;
  *out = dtype == TENON_F32 ? kF32 : dtype == TENON_F16 ? kF16 : kBf16;
  return true;
}

Status read_types(const tenon_kernel_call_t& call, const Node& anchor, Problem* p) {
  const tenon_dtype_t source = tenon_kernel_operand(&call, kSource)->type.dtype;
  const tenon_dtype_t weights = tenon_kernel_operand(&call, kWeights)->type.dtype;
  const tenon_dtype_t result = anchor.result(0).dtype();
  if (source != weights || !read_type(source, &p->source.type))
    return refuse("operands of f32, f16 or bf16 only, both of one type");
  p->weights.type = p->source.type;
  if ((result != source && result != TENON_F32) || !read_type(result, &p->result.type))
    return refuse("a result of the operands' type or f32 only");
  if (const tenon_dtype_t acc = anchor.dtype("acc"); acc != TENON_DTYPE_NONE && acc != TENON_F32)
    return refuse("sums in f32 only");
  if ((call.flags & TENON_KERNEL_CALL_DETERMINISTIC) != 0)
    return refuse("its sums depend on the GPU and on the library's version");
  return {};
}

// The free dims become rows or columns, whichever the side has in the turned product.
void place(const ProductSide& side, bool free_as_rows, Matrix* out) {
  const bool sum_first = side.sum_stride == 1;  // consecutive elements are of the sum
  out->rows = sum_first ? side.sum : side.free;
  out->columns = sum_first ? side.free : side.sum;
  out->leading = out->rows;
  out->transpose = sum_first == free_as_rows ? kTransposed : kPlain;
  out->batch_stride = side.batch_stride;
}

bool is_large(int64_t count) {
  return count > std::numeric_limits<int32_t>::max();
}

Status read_product(const tenon_type_t& source, const tenon_type_t& weights, Problem* p) {
  ProductSide a, b;
  TENON_TRY(read_product_side(source, p->dims.source_batch, p->dims.source_sum, &a));
  TENON_TRY(read_product_side(weights, p->dims.weights_batch, p->dims.weights_sum, &b));
  if (is_large(a.batch) || is_large(a.free) || is_large(b.free))
    return refuse("fewer than 2^31 rows, columns and products of a batch only");
  place(b, true, &p->weights);
  place(a, false, &p->source);
  p->result = {p->result.type, kPlain, b.free, a.free, b.free, a.free * b.free};
  p->batch = a.batch;
  p->depth = a.sum;
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  p->flops = 2 * number(a.batch) * number(a.free) * number(a.sum) * number(b.free);
  p->result_bytes = number(a.batch) * number(p->result.batch_stride) *
                    static_cast<double>(bytes_of(p->result.type));
  p->bytes = p->result_bytes + number(a.batch) * (number(a.batch_stride) + number(b.batch_stride)) *
                                   static_cast<double>(bytes_of(p->source.type));
  return {};
}

tenon_type_t with_dims(tenon_type_t type, const std::vector<int64_t>& dims) {
  type.dims = dims.data();
  type.rank = static_cast<uint32_t>(dims.size());
  return type;
}

// Sizes that only a run knows may be anything, also 0.
Status check_known(const tenon_type_t& type, bool* any_size) {
  std::vector<int64_t> known;
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] >= 0) known.push_back(type.dims[i]);
  }
  *any_size |= known.size() != type.rank;
  return check_kernel_dims(with_dims(type, known));
}

// Each symbol by its likely size, as the device's own costs have it.
std::vector<int64_t> likely_dims(tenon_graph_t* graph, const tenon_type_t& type) {
  const tenon_host_graph_t& api = graph_api();
  auto view = sized<tenon_graph_view_t>();
  api.graph_view(api.self, graph, &view);
  std::vector<int64_t> symbols(view.symbol_limit, 1);
  for (uint32_t i = 0; i < view.symbol_limit; ++i) {
    auto symbol = sized<tenon_symbol_view_t>();
    if (api.symbol_view(api.self, graph, i, &symbol) == TENON_OK)
      symbols[i] = sizes::likely_size(symbol.hint, symbol.lo, symbol.hi);
  }
  std::vector<int64_t> out(type.dims, type.dims + type.rank);
  for (int64_t& d : out) {
    int64_t size = 1;
    if (d < 0 && (api.dim_evaluate(api.self, graph, d, symbols.data(), view.symbol_limit, &size) !=
                      TENON_OK ||
                  size < 1))
      size = 1;
    if (d < 0) d = size;
  }
  return out;
}

Status read_sizes(const tenon_kernel_call_t& call, const Node& anchor, Problem* p) {
  const tenon_type_t& source = tenon_kernel_operand(&call, kSource)->type;
  const tenon_type_t& weights = tenon_kernel_operand(&call, kWeights)->type;
  TENON_TRY(check_known(source, &p->any_size));
  TENON_TRY(check_known(weights, &p->any_size));
  TENON_TRY(check_known(anchor.result(0).type().raw(), &p->any_size));
  p->dims = {anchor.i64s("a_batch"),
             anchor.i64s("a_contract"),
             anchor.i64s("b_batch"),
             anchor.i64s("b_contract"),
             source.rank,
             weights.rank};
  // The sum of nothing would have to be written as zeros.
  if (p->dims.source_sum.size() == 1 && source.dims[p->dims.source_sum[0]] < 0)
    return refuse("sums over a size that is known before the run only");
  const std::vector<int64_t> s = likely_dims(call.graph, source),
                             w = likely_dims(call.graph, weights);
  return read_product(with_dims(source, s), with_dims(weights, w), p);
}

// The last dim of the result holds the features, if the weights have one free dim, of known size.
bool has_features(const tenon_kernel_call_t& call, const ProductDims& dims) {
  const tenon_type_t& weights = tenon_kernel_operand(&call, kWeights)->type;
  const size_t first = dims.weights_batch.size();
  if (weights.rank != first + 2) return false;
  const size_t sum = static_cast<size_t>(dims.weights_sum[0]);
  return weights.dims[sum == first ? first + 1 : first] >= 0;
}

// The library computes curve(product + residual + bias). Its gelu is the one with tanh. Its relu
// gives 0 for NaN where the op keeps NaN, so it has to be allowed.
bool take(const FollowStep& step, const tenon_kernel_call_t& call, const Allowed& allowed,
          tenon_dtype_t result, Problem* p) {
  if (p->curve != kEpilogueNone) return false;
  switch (step.kind) {
    case FollowStep::kBias:
      if (p->bias != TENON_NONE) return false;
      p->bias = step.operand;
      return true;
    case FollowStep::kAdd:
      if (p->residual != TENON_NONE ||
          tenon_kernel_operand(&call, step.operand)->type.dtype != result)
        return false;
      p->residual = step.operand;
      return true;
    case FollowStep::kUnary:
      break;
  }
  if (step.op == "gelu_tanh") p->curve = kEpilogueGelu;
  if (step.op == "relu" && allowed.relu) p->curve = kEpilogueRelu;
  return p->curve != kEpilogueNone;
}

bool has_word(std::string_view list, std::string_view word) {
  for (;;) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

Allowed allowed() {
  const std::string_view words = setting("TENON_CUBLASLT_ALLOW");
  return {has_word(words, "tf32"), has_word(words, "relu")};
}

Status refuse(std::string_view reason) {
  return fail(TENON_UNIMPLEMENTED, reason);
}

Status read_problem(const tenon_kernel_call_t& call, const Allowed& allowed, Problem* out) {
  const Node anchor(call.graph, call.anchor);
  if (!anchor.is("dot_general")) return refuse("no kernel for this op here");
  TENON_TRY(read_types(call, anchor, out));
  TENON_TRY(read_sizes(call, anchor, out));
  if (allowed.tf32 && out->source.type == kF32) out->compute = kComputeTf32;
  const int64_t dim = has_features(call, out->dims) ? int64_t{anchor.result(0).rank()} - 1 : -1;
  for (const FollowStep& step : read_follow_steps(call, dim, out->result.rows)) {
    if (!take(step, call, allowed, anchor.result(0).dtype(), out)) break;
    out->epilogue_taken = step.nodes;
  }
  return {};
}

Status resize_problem(const Problem& problem, const int64_t* source, const int64_t* weights,
                      Problem* out) {
  *out = problem;
  tenon_type_t s = {}, w = {};
  s.dims = source;
  s.rank = problem.dims.source_rank;
  w.dims = weights;
  w.rank = problem.dims.weights_rank;
  return read_product(s, w, out);
}

}  // namespace tenon::cublaslt
