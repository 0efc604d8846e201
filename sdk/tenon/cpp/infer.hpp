// Inference in C++: what an op's `infer` and `value_of` ask of a node that may not exist yet, and
// the common answers.
#ifndef TENON_CPP_INFER_HPP_
#define TENON_CPP_INFER_HPP_

#include "tenon/abi/ops.h"
#include "tenon/cpp/attributes.hpp"
#include "tenon/cpp/graph.hpp"

namespace tenon::inline sdk {

// Wraps tenon_infer_t for the length of one call. Attributes are asked for by name and always
// there.
class InferQuery : public Attributes {
 public:
  explicit InferQuery(const tenon_infer_t* raw)
      : Attributes(raw->op, raw->attrs, raw->attr_count), raw_(raw) {}
  const tenon_infer_t& raw() const { return *raw_; }

  uint32_t operand_count() const { return raw_->operand_count; }
  bool has(uint32_t operand) const {
    return operand < raw_->operand_count && raw_->operands[operand].dtype != TENON_DTYPE_NONE;
  }
  TypeView type(uint32_t operand) const { return TypeView(raw_->graph, raw_->operands[operand]); }
  using Attributes::dtype;
  tenon_dtype_t dtype(uint32_t operand) const { return raw_->operands[operand].dtype; }
  uint32_t rank(uint32_t operand) const { return raw_->operands[operand].rank; }
  Dim dim(uint32_t operand, uint32_t i) const {
    return Dim(raw_->graph, raw_->operands[operand].dims[i]);
  }
  Dims dims(uint32_t operand) const { return type(operand).dims(); }
  Dim constant(int64_t value) const { return Dim(raw_->graph, value); }

  Dims dims(std::string_view name) const {
    const tenon_attr_t& a = attr(name);
    Dims out;
    for (uint64_t i = 0; i < a.count; ++i) out.push_back(Dim(raw_->graph, a.u.dims[i]));
    return out;
  }

  // Elements of an operand that is known now; empty optional otherwise. Borrowed until the call
  // ends.
  std::optional<std::span<const tenon_dim_t>> value_of(uint32_t operand) const {
    const tenon_dim_t* dims = nullptr;
    uint64_t count = 0;
    if (raw_->value_of == nullptr || raw_->value_of(raw_->host, operand, &dims, &count) != TENON_OK)
      return {};
    return std::span<const tenon_dim_t>(dims, count);
  }

  // An extent in [lo, hi] that the node itself decides when it runs; the op has DEFINES_SYMBOL.
  Dim fresh_symbol(int64_t lo, int64_t hi) const {
    tenon_symbol_t symbol = 0;
    if (graph_api().symbol_fresh(graph_api().self, raw_->graph, lo, hi, 1, &symbol) != TENON_OK)
      return Dim::invalid();
    auto view = sized<tenon_symbol_view_t>();
    if (graph_api().symbol_view(graph_api().self, raw_->graph, symbol, &view) != TENON_OK)
      return Dim::invalid();
    return Dim(raw_->graph, view.dim);
  }
  // A token, which orders effects.
  Status result_token() const { return raw_->result(raw_->host, TENON_DTYPE_NONE, nullptr, 0); }
  Status result(tenon_dtype_t dtype, const Dims& dims) const {
    tenon_dim_t raw[TENON_RANK_MAX];
    if (dims.size() > TENON_RANK_MAX) {
      return tenon::fail(
          TENON_RESOURCE_EXHAUSTED,
          cat("A result of rank ", dims.size(), " is above the limit of ", TENON_RANK_MAX, "."));
    }
    for (size_t i = 0; i < dims.size(); ++i) raw[i] = dims[i].raw();
    for (const Dim& d : dims) {
      if (!d.valid())
        return TENON_OUT_OF_RANGE;  // the host kept the reason when the arithmetic failed
    }
    return raw_->result(raw_->host, dtype, raw, static_cast<uint32_t>(dims.size()));
  }
  Status fail(std::string_view label, std::string_view text) const {
    return raw_->fail(raw_->host, str(label), str(text));
  }
  // Equal, or recorded as an assertion when it cannot be known; NO fails with `label`.
  Status require_equal(std::string_view label, Dim a, Dim b, std::string_view what) const {
    return require(label, TENON_REL_EQ, a, b, what);
  }
  Status require(std::string_view label, uint32_t rel, Dim a, Dim b, std::string_view what) const {
    if (!a.valid() || !b.valid()) return TENON_OUT_OF_RANGE;
    return raw_->require(raw_->host, str(label), rel, a.raw(), b.raw(), str(what));
  }
  // Equal rank and dims.
  Status require_same_shape(std::string_view label, uint32_t a, uint32_t b) const {
    if (rank(a) != rank(b)) {
      return fail(
          label, cat("operand ", a, " has rank ", rank(a), ", operand ", b, " has rank ", rank(b)));
    }
    for (uint32_t i = 0; i < rank(a); ++i) {
      TENON_TRY(require_equal(label, dim(a, i), dim(b, i),
                              cat("dim ", i, " of operands ", a, " and ", b)));
    }
    return {};
  }
  // Distinct axes in [0, rank).
  Status require_axes(std::string_view label, std::span<const int64_t> axes, size_t rank) const {
    uint64_t seen = 0;
    for (int64_t axis : axes) {
      if (axis < 0 || axis >= static_cast<int64_t>(rank)) {
        return fail(label, cat("dim ", axis, " is outside of rank ", rank));
      }
      if ((seen >> axis & 1) != 0) return fail(label, cat("dim ", axis, " is given twice"));
      seen |= uint64_t{1} << axis;
    }
    return {};
  }

 private:
  const tenon_infer_t* raw_;
};

// Several ops of one shape share these. Constraint C1 is "operands have equal shapes".
inline Status infer_elementwise(const InferQuery& q) {
  for (uint32_t i = 1; i < q.operand_count(); ++i) TENON_TRY(q.require_same_shape("C1", 0, i));
  return q.result(q.dtype(0), q.dims(0));
}
inline Status infer_elementwise_pred(const InferQuery& q) {
  for (uint32_t i = 1; i < q.operand_count(); ++i) TENON_TRY(q.require_same_shape("C1", 0, i));
  return q.result(TENON_PRED, q.dims(0));
}
// The type of operand 0, without constraints of its own.
inline Status infer_same(const InferQuery& q) {
  return q.result(q.dtype(0), q.dims(0));
}

// The dims of `in` without `axes`.
inline Dims without(const Dims& in, std::span<const int64_t> axes) {
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    bool dropped = false;
    for (int64_t axis : axes) dropped |= axis == static_cast<int64_t>(i);
    if (!dropped) out.push_back(in[i]);
  }
  return out;
}

// From the first to the last element of a window; 0 for one without any.
constexpr int64_t window_span(int64_t window, int64_t dilation) {
  return window == 0 ? 0 : (window - 1) * dilation + 1;
}

// Extent of a window that slides: floor((in_dilated + low + high - window_dilated) / stride) + 1,
// at least 0. `input` is symbolic, the rest constants; low and high may be negative.
inline Dim window_extent(Dim input, int64_t base_dilation, int64_t low, int64_t high,
                         int64_t window, int64_t window_dilation, int64_t stride) {
  tenon_graph_t* graph = input.graph();
  const auto c = [graph](int64_t v) { return Dim(graph, v); };
  if (base_dilation != 1) input = max((input - c(1)) * c(base_dilation) + c(1), c(0));
  const int64_t span = window_span(window, window_dilation);
  // Padding and window are gathered into one constant so that a symbolic input keeps the simplest
  // form.
  const int64_t shift = low + high - span + stride;
  const Dim grown = shift >= 0 ? input + c(shift) : max(input, c(-shift)) - c(-shift);
  return grown / c(stride);
}

// The same of a window that has to fit into what it slides over, borders included, if it has more
// than one element: NO fails with `label`, and what cannot be known is checked by each run.
inline Status fitting_window(const InferQuery& q, std::string_view label, Dim input,
                             int64_t base_dilation, int64_t low, int64_t high, int64_t window,
                             int64_t window_dilation, int64_t stride, Dim* out) {
  const int64_t span = window_span(window, window_dilation);
  const int64_t least = span - low - high;
  if (span <= 1 || least <= 0 || !input.valid()) {
    *out = window_extent(input, base_dilation, low, high, window, window_dilation, stride);
    return {};
  }
  // (n - 1) * dilation + 1 elements are enough as soon as n is.
  const int64_t elements = (least - 1 + base_dilation - 1) / base_dilation + 1;
  TENON_TRY(q.require(label, TENON_REL_LE, q.constant(elements), input,
                      "elements that the window spans and those it slides over"));
  if (base_dilation != 1)
    input = (input - q.constant(1)) * q.constant(base_dilation) + q.constant(1);
  const int64_t shift = low + high - span + stride;
  *out = (shift >= 0 ? input + q.constant(shift) : input - q.constant(-shift)) / q.constant(stride);
  return {};
}

}  // namespace tenon::inline sdk

#endif
