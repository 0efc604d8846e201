// Shared by several op files: axes, folding helpers, the usual steps of decompositions.
#ifndef TENON_PLUGINS_OPS_COMMON_H_
#define TENON_PLUGINS_OPS_COMMON_H_

#include "tenon/cpp/op.hpp"

namespace tenon::ops {

using scalar::arg;
using scalar::attr;
using Axes = std::vector<int64_t>;

inline Axes range(int64_t begin, int64_t end) {
  Axes out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}
// The axes of `rank` that are not in `axes`, in order.
inline Axes others(int64_t rank, std::span<const int64_t> axes) {
  Axes out;
  for (int64_t i = 0; i < rank; ++i) {
    bool given = false;
    for (int64_t axis : axes) given |= axis == i;
    if (!given) out.push_back(i);
  }
  return out;
}
inline bool is_identity(std::span<const int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}
inline bool all_equal(std::span<const int64_t> list, int64_t value) {
  for (int64_t v : list) {
    if (v != value) return false;
  }
  return true;
}
// A list attribute or, when it is empty, `count` times `otherwise`.
inline Axes list_or(std::span<const int64_t> list, size_t count, int64_t otherwise) {
  return list.empty() ? Axes(count, otherwise) : Axes(list.begin(), list.end());
}

// ---- Decompositions ----

inline bool is_narrow(tenon_dtype_t dtype) {
  return dtype == TENON_F16 || dtype == TENON_BF16;
}
// f16 and bf16 as f32, in which norms and softmax compute.
inline Value widen(Builder& b, Value x) {
  return is_narrow(x.dtype()) ? b.convert(x, TENON_F32) : x;
}

inline Value reduce(Builder& b, std::string_view op, Value x, std::span<const int64_t> axes) {
  return b.build(op, {x}, {{"dims", axes}});
}
// Broadcasts a reduced value back to the dims of `like`.
inline Value spread(Builder& b, Value reduced, Value like, std::span<const int64_t> axes) {
  return b.broadcast(reduced, like.dims(), others(like.rank(), axes));
}
// Broadcasts a value of rank 1 that lies along `axis` of `like`.
inline Value along(Builder& b, Value x, Value like, int64_t axis) {
  return b.broadcast(x, like.dims(), Axes{axis});
}
// The number of elements that a reduction over `axes` combines, as a rank-0 value of `dtype`.
inline Value count_along(Builder& b, Value x, std::span<const int64_t> axes, tenon_dtype_t dtype) {
  Dim count = b.dim(1);
  for (int64_t axis : axes) count = count * x.dim(static_cast<uint32_t>(axis));
  if (count.is_constant()) return b.scalar(dtype, static_cast<double>(count.constant()));
  Value product;
  for (int64_t axis : axes) {
    const Value size = b.build("dim_size", {x}, {{"dim", axis}});
    product = product ? b.build("mul", {product, size}) : size;
  }
  return b.convert(product, dtype);
}
inline Value mean_along(Builder& b, Value x, std::span<const int64_t> axes) {
  const Value sum = reduce(b, "reduce_sum", x, axes);
  return b.build("div", {sum, b.splat(count_along(b, x, axes, x.dtype()), sum.dims())});
}
inline Value add_number(Builder& b, Value x, double number) {
  return number == 0 ? x : b.build("add", {x, b.full_like(x, number)});
}

// Documents the attribute `acc` of ops that sum or multiply many elements; require_acc checks it.
inline constexpr std::string_view kAccText =
    "the type that is computed in, or one that holds more; none: f32 for f16 and bf16, else the "
    "type of x";
inline constexpr std::string_view kAccRule = "acc is a float for floats, an integer for integers";

inline constexpr std::string_view kActivations = "none|relu|gelu|gelu_tanh|silu|tanh|logistic";
inline Value activate(Builder& b, Value x, std::string_view activation) {
  return activation == "none" || activation.empty() ? x : b.build(activation, {x});
}

// ---- Inference ----

// Whether the parts of a number are floats: those of complex numbers are.
inline bool has_floats(tenon_dtype_t dtype) {
  return is_float(dtype) || is_complex(dtype);
}
// Requires that an accumulation over operand 0 can be kept in `acc`: a number of the same kind.
inline Status require_acc(const InferQuery& q, std::string_view label) {
  const tenon_dtype_t acc = q.dtype("acc");
  if (acc == TENON_DTYPE_NONE || (is_in(acc, kNumber) && is_float(acc) == has_floats(q.dtype(0))))
    return {};
  return q.fail(label, cat("acc is ", dtype_name(acc), ", x has ", dtype_name(q.dtype(0))));
}

// Requires that a sum of products of operand 0 can be kept in `acc` and returned as `dtype`:
// numbers of the same kind.
inline Status require_sum_types(const InferQuery& q, std::string_view label) {
  for (std::string_view name : {"acc", "dtype"}) {
    const tenon_dtype_t chosen = q.dtype(name);
    if (is_complex(q.dtype(0)) && chosen == q.dtype(0)) continue;
    if (chosen != TENON_DTYPE_NONE &&
        (!is_in(chosen, kNumber) || is_float(chosen) != has_floats(q.dtype(0)) ||
         (is_complex(q.dtype(0)) && name == "dtype"))) {
      return q.fail(label, cat(name, " is ", dtype_name(chosen), ", the operands have ",
                               dtype_name(q.dtype(0))));
    }
  }
  return {};
}

inline std::optional<int64_t> constant_of(Dim d);
inline Status require_dim(const InferQuery& q, std::string_view label, int64_t dim, size_t rank) {
  if (dim >= 0 && dim < static_cast<int64_t>(rank)) return {};
  return q.fail(label, cat("dim ", dim, " is outside of rank ", rank));
}
inline Status require_length(const InferQuery& q, std::string_view label, std::string_view name,
                             size_t length, size_t wanted) {
  if (length == wanted) return {};
  return q.fail(label, cat(name, " has ", length, " entries, but ", wanted, " are needed"));
}

// The smallest proven upper bound of a dim; INT64_MAX when there is none.
inline int64_t upper_bound(Dim d) {
  if (const auto number = constant_of(d)) return *number;
  const auto within = [d](int64_t n) {
    return compare(TENON_REL_LE, d, Dim(d.graph(), n)) == TENON_YES;
  };
  int64_t high = 1;
  while (!within(high)) {
    if (high > INT64_MAX / 2) return INT64_MAX;
    high *= 2;
  }
  int64_t low = high / 2;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (within(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

// ---- Shape arithmetic ----

// An operand with a constant shape whose elements are known as dims.
struct Known {
  std::vector<Dim> values;
  std::vector<int64_t> dims;
};
inline std::optional<Known> known(const InferQuery& q, uint32_t operand) {
  const TypeView type = q.type(operand);
  if (!is_in(type.dtype(), kInt | kPred) || !type.is_static()) return {};
  const auto raw = q.value_of(operand);
  if (!raw) return {};
  Known out;
  for (tenon_dim_t d : *raw) out.values.push_back(Dim(q.raw().graph, d));
  for (uint32_t i = 0; i < type.rank(); ++i) out.dims.push_back(type.dim(i).constant());
  return out;
}
// A negative constant is not stored inline in a Dim, so this asks the graph.
inline std::optional<int64_t> constant_of(Dim d) {
  if (d.is_constant()) return d.constant();
  auto view = sized<tenon_dim_view_t>();
  if (!d.valid() || graph_api().dim_view(graph_api().self, d.graph(), d.raw(), &view) != TENON_OK)
    return {};
  if (view.op != TENON_DIM_CONSTANT) return {};
  return view.constant;
}
// Whether `dtype` holds this number without wrapping. 64 bits hold every dim, because a dim that
// overflows is invalid. A symbolic extent is assumed to fit in i32: models that compute shapes in
// i32 have no dim of 2^31 elements, and requiring a bound would refuse them all.
inline bool fits(tenon_dtype_t dtype, Dim d) {
  if (dtype == TENON_I64) return true;
  const int64_t width = dtype_bits(dtype);
  if (!is_int(dtype) || dtype == TENON_U64) return false;
  const int64_t hi = (int64_t{1} << (is_in(dtype, kSigned) ? width - 1 : width)) - 1;
  const int64_t lo = is_in(dtype, kSigned) ? -hi - 1 : 0;
  if (const auto number = constant_of(d)) return *number >= lo && *number <= hi;
  if (dtype == TENON_I32) return d.valid();
  return d.valid() && compare(TENON_REL_LE, d, Dim(d.graph(), hi)) == TENON_YES &&
         compare(TENON_REL_LE, Dim(d.graph(), 0), d) == TENON_YES;
}
inline Status answer(std::span<const Dim> values, tenon_dim_t* out) {
  for (Dim d : values) {
    if (!d.valid()) return TENON_NOT_FOUND;
    *out++ = d.raw();
  }
  return {};
}

// The same for computed numbers, which would wrap in their type.
inline Status answer_in(tenon_dtype_t dtype, std::span<const Dim> values, tenon_dim_t* out) {
  for (Dim d : values) {
    if (!fits(dtype, d)) return TENON_NOT_FOUND;
  }
  return answer(values, out);
}

// ---- Windows ----

inline constexpr int64_t kBound = int64_t{1} << 31;  // of attributes: keeps sums of them in range

// One entry per dim that a window slides over.
struct Window {
  Axes window, strides, low, high, base_dilation, dilation;
};
// The attributes of those names. What is empty, or is none of the op's, has its neutral value.
template <class Source>
Window window_of(const Source& q, size_t count) {
  return {list_or(q.i64s("window"), count, 1),        list_or(q.i64s("strides"), count, 1),
          list_or(q.i64s("pad_low"), count, 0),       list_or(q.i64s("pad_high"), count, 0),
          list_or(q.i64s("base_dilation"), count, 1), list_or(q.i64s("dilation"), count, 1)};
}
// fitting_window() of entry i, with the window's extent where it does not come as an attribute.
inline Status fitting(const InferQuery& q, std::string_view label, Dim input, const Window& w,
                      size_t i, int64_t window, Dim* out) {
  return fitting_window(q, label, input, w.base_dilation[i], w.low[i], w.high[i], window,
                        w.dilation[i], w.strides[i], out);
}
inline Status fitting(const InferQuery& q, std::string_view label, Dim input, const Window& w,
                      size_t i, Dim* out) {
  return fitting(q, label, input, w, i, w.window[i], out);
}
// Strides and dilations are at least 1, paddings at least 0, one per spatial dim.
inline Status check_window_lists(const InferQuery& q, std::string_view length_label,
                                 size_t spatial) {
  for (std::string_view name : {"strides", "pad_low", "pad_high", "dilation"}) {
    if (!q.i64s(name).empty())
      TENON_TRY(require_length(q, length_label, name, q.i64s(name).size(), spatial));
    const int64_t least = name.starts_with("pad") ? 0 : 1;
    for (int64_t v : q.i64s(name)) {
      if (v < least || v > kBound) return q.fail("C2", cat(name, " holds ", v));
    }
  }
  return {};
}
// One entry per dim of an image: batch and channels take no part.
inline Axes with_batch(const Axes& spatial, int64_t neutral) {
  Axes out(2, neutral);
  out.insert(out.end(), spatial.begin(), spatial.end());
  return out;
}

}  // namespace tenon::ops

#endif
