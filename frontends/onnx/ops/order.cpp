// Ops that depend on the order of elements, and ops with results of data-dependent size.
#include <array>
#include <cmath>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

bool top_k_of(NodeContext& n, Dim k, bool largest) {
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  n.integer("sorted", 1);  // sorted results are valid for both values
  if (!n.ok() || !k.valid()) return n.fail("T0713", "its k must be one positive number");
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  const std::vector<Value> operands = {x};
  const Dims count = {k};
  const std::vector<Attr> attrs = {Attr("k", count), Attr("dim", axis),
                                   Attr("largest", largest ? 1 : 0)};
  const Node node = n.builder().build_node("top_k", operands, attrs);
  return n.set(0, node.result(0)) && n.set(1, node.result(1));
}

bool top_k_attribute(NodeContext& n) {
  if (!n.arity(1, 1, 2)) return false;
  const int64_t k = n.integer("k", 0);
  return top_k_of(n, k < 1 ? Dim() : n.dim(k), true);
}

bool top_k(NodeContext& n) {
  if (!n.arity(2, 2, 2)) return false;
  const Extents* k = n.need(1, "k");
  if (k == nullptr) return false;
  return top_k_of(n, k->size() == 1 ? (*k)[0].dim(n.graph()) : Dim(), n.integer("largest", 1) != 0);
}

// ---- Results of data-dependent size ----

// A value as one dim.
Value flat(NodeContext& n, Value x) {
  return x.valid() ? n.reshape(x, {n.product(x.dims())}) : x;
}

bool nonzero(NodeContext& n) {
  return n.arity(1, 1) && n.set(0, n.build("nonzero", {n.value(0)}));
}

bool compress(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const bool whole = !n.has_attribute("axis");
  const int64_t axis = whole ? 0 : n.axis(n.integer("axis", 0), n.rank(0));
  if (!n.ok()) return false;
  const Value x = whole ? flat(n, n.value(0)) : n.value(0);
  return n.set(0, n.build("compress", {x, n.value(1)}, {{"dim", axis}}));
}

bool unique(NodeContext& n) {
  if (!n.arity(1, 1, 4)) return false;
  const bool whole = !n.has_attribute("axis");
  const int64_t axis = whole ? 0 : n.axis(n.integer("axis", 0), n.rank(0));
  const int64_t sorted = n.integer("sorted", 1);
  const Value x = n.ok() && whole ? flat(n, n.value(0)) : n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  const std::vector<Value> operands = {x};
  const std::vector<Attr> attrs = {Attr("dim", axis), Attr("sorted", sorted)};
  const Node node = n.builder().build_node("unique", operands, attrs);
  for (uint32_t i = 0; i < 4; ++i) {
    if (!n.set(i, node.result(i))) return false;
  }
  return true;
}

bool nms(NodeContext& n) {
  if (!n.arity(2, 5)) return false;
  const auto number = [&](size_t i, double otherwise, std::string_view what) {
    if (!n.has(i)) return otherwise;
    const auto given = n.need_constants(i, what);
    if (given && given->size() != 1) n.fail("T0713", cat(what, " is not one number"));
    return given && given->size() == 1 ? given->front() : otherwise;
  };
  const double most = number(2, 0, "the number of boxes"), overlap = number(3, 0, "the overlap");
  const double score = number(4, -INFINITY, "the score");
  const std::string_view form = n.integer("center_point_box", 0) != 0 ? "center" : "corners";
  if (!n.ok() || !(most >= 0)) return n.fail("T0713", "its number of boxes is negative");
  return n.set(0, n.build("nms", {n.value(0), n.value(1)},
                          {{"most", saturate<int64_t>(most)},
                           {"overlap", overlap},
                           {"score", score},
                           {"form", form}}));
}

// ---- Positions computed from positions ----

Value iota(NodeContext& n, const Dims& shape, int64_t dim, tenon_dtype_t type) {
  return n.build("iota", std::vector<Value>(),
                 {{"shape", shape}, {"dim", dim}, {"dtype", dtype(type)}});
}
Value size_of(NodeContext& n, Value x, int64_t dim, tenon_dtype_t type, const Dims& shape) {
  return n.broadcast_to(n.convert(n.build("dim_size", {x}, {{"dim", dim}}), type), shape);
}

// Reverses the elements before each batch's length.
bool reverse_sequence(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const int64_t time = n.axis(n.integer("time_axis", 0), n.rank(0)),
                batch = n.axis(n.integer("batch_axis", 1), n.rank(0));
  if (!n.ok() || time == batch) return n.fail("T0713", "its time and batch axes must differ");
  const Value x = n.value(0);
  const Dims shape = n.dims(0);
  const Value length = n.build("broadcast", {n.convert(n.value(1), TENON_I64)},
                               {{"shape", shape}, {"dims", {batch}}});
  const Value at = iota(n, shape, time, TENON_I64);
  if (!n.ok() || !length.valid() || !at.valid()) return n.ok();
  const Value back =
      n.build("sub", {n.build("sub", {length, at}),
                      n.builder().splat(n.builder().scalar_int(TENON_I64, 1), shape)});
  const Value from =
      n.build("select", {n.build("compare", {at, length}, {{"direction", 2}}), back, at});
  return n.set(0, n.build("take_along", {x, from}, {{"dim", time}, {"mode", "in_bounds"}}));
}

std::string_view kind_of(NodeContext& n) {
  const std::string_view r = n.version() >= 16 ? n.text("reduction", "none") : "none";
  if (r == "none") return "set";
  if (r != "add" && r != "mul" && r != "max" && r != "min")
    n.fail("T0708", "attribute 'reduction' must be none, add, mul, max or min");
  return r;
}

bool scatter_elements(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const std::string_view kind = kind_of(n);
  if (!n.ok()) return false;
  const Value x = n.value(0), raw = n.value(1);
  if (!raw.valid() || !is_in(raw.dtype(), kIndex))
    return n.fail("T0710", "its indices need element type i32 or i64");
  const Value size = size_of(n, x, axis, raw.dtype(), raw.dims());
  const Value at =
      n.build("select", {n.build("compare", {raw, n.full_like(raw, 0)}, {{"direction", 2}}),
                         n.build("add", {raw, size}), raw});
  return n.set(0, n.build("scatter_elements", {x, at, n.value(2)},
                          {{"dim", axis}, {"kind", kind}, {"mode", "in_bounds"}}));
}

// Writes updates into a cache, from a position that each batch has of its own.
bool tensor_scatter(NodeContext& n) {
  if (!n.arity(2, 3)) return false;
  const int64_t axis = n.axis(n.integer("axis", -2), n.rank(0));
  const std::string_view mode = n.text("mode", "linear");
  if (!n.ok()) return false;
  if (mode != "linear" && mode != "circular")
    return n.fail("T0708", "attribute 'mode' is neither linear nor circular");
  const Value x = n.value(0), update = n.value(1);
  if (!x.valid() || !update.valid()) return n.ok();
  const Dims shape = update.dims();
  Value at = iota(n, shape, axis, TENON_I64);
  if (n.has(2))
    at = n.build("add", {at, n.build("broadcast", {n.convert(n.value(2), TENON_I64)},
                                     {{"shape", shape}, {"dims", {0}}})});
  if (mode == "circular") at = n.build("floor_mod", {at, size_of(n, x, axis, TENON_I64, shape)});
  return n.set(
      0, n.build("scatter_elements", {x, at, update}, {{"dim", axis}, {"mode", "in_bounds"}}));
}

bool eye_like(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t k = n.integer("k", 0), wanted = n.integer("dtype", 0);
  const tenon_dtype_t type =
      n.has_attribute("dtype") ? dtype_of_onnx(static_cast<int32_t>(wanted)) : n.dtype(0);
  if (type == TENON_DTYPE_NONE)
    return n.fail("T0710", cat("its element type ", wanted, " is not supported"));
  if (n.rank(0) != 2) return n.fail("T0713", "its input needs rank 2");
  const Dims shape = n.dims(0);
  const Value row = iota(n, shape, 0, TENON_I64), column = iota(n, shape, 1, TENON_I64);
  if (!row.valid()) return n.ok();
  const Value place =
      n.build("add", {row, n.builder().splat(n.builder().scalar_int(TENON_I64, k), shape)});
  return n.set(0, n.convert(n.build("compare", {column, place}, {{"direction", 0}}), type));
}

bool cumprod(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const auto given = n.need_numbers(1, "the axis");
  if (!given || given->size() != 1) return n.fail("T0713", "its axis must be one number");
  const int64_t axis = n.axis(given->front(), n.rank(0));
  return n.ok() && n.set(0, n.build("cumprod", {n.value(0)},
                                    {{"dim", axis},
                                     {"reverse", n.integer("reverse", 0)},
                                     {"exclusive", n.integer("exclusive", 0)}}));
}

bool bit_cast(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t to = n.integer("to", 0);
  const tenon_dtype_t type = dtype_of_onnx(static_cast<int32_t>(to));
  if (type == TENON_DTYPE_NONE)
    return n.fail("T0710", cat("its element type ", to, " is not supported"));
  // A boolean is a byte of 0 or 1.
  const Value x = n.dtype(0) == TENON_PRED ? n.convert(n.value(0), TENON_U8) : n.value(0);
  return n.set(0, type == TENON_U8 && n.dtype(0) == TENON_PRED
                      ? x
                      : n.build("bitcast", {x}, {{"dtype", dtype(type)}}));
}

// HannWindow, HammingWindow, BlackmanWindow: sums of cosines over one period.
bool cosine_window(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const bool periodic = n.integer("periodic", 1) != 0;
  const int64_t to = n.integer("output_datatype", 1);
  const tenon_dtype_t type = dtype_of_onnx(static_cast<int32_t>(to));
  if (type == TENON_DTYPE_NONE)
    return n.fail("T0710", cat("its element type ", to, " is not supported"));
  const Extents* size = n.need(0, "the size");
  if (!n.ok() || size == nullptr) return false;
  if (size->size() != 1) return n.fail("T0713", "its size must be one number");
  const Dims dims = {(*size)[0].dim(n.graph())};
  if (!dims[0].valid()) return n.fail("T0713", "its size is negative or too large");
  const Value k = iota(n, dims, 0, TENON_F32);
  if (!k.valid()) return n.ok();
  const auto all = [&](double v) { return n.full_like(k, v); };
  Value period = n.broadcast_to(n.convert(n.reshape(n.value(0), {}), TENON_F32), dims);
  if (!periodic) period = n.build("sub", {period, all(1)});
  const Value angle = n.build("div", {n.build("mul", {k, all(2 * M_PI)}), period});
  const auto cosine = [&](const Value& of, double factor) {
    return n.build("mul", {n.build("cos", {of}), all(factor)});
  };
  const double constant = n.op() == "HannWindow"      ? 0.5
                          : n.op() == "HammingWindow" ? 25.0 / 46
                                                      : 0.42;
  const double first = n.op() == "HammingWindow" ? 21.0 / 46 : 0.5;
  Value out = n.build("sub", {all(constant), cosine(angle, first)});
  if (n.op() == "BlackmanWindow")
    out = n.build("add", {out, cosine(n.build("add", {angle, angle}), 0.08)});
  return n.set(0, n.convert(out, type));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"TopK", 1, top_k_attribute},
    {"TopK", 10, top_k},
    {"NonZero", 9, nonzero},
    {"Compress", 9, compress},
    {"Unique", 11, unique},
    {"NonMaxSuppression", 10, nms},
    {"ReverseSequence", 10, reverse_sequence},
    {"Scatter", 9, scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"TensorScatter", 24, tensor_scatter},
    {"EyeLike", 9, eye_like},
    {"HannWindow", 17, cosine_window},
    {"HammingWindow", 17, cosine_window},
    {"BlackmanWindow", 17, cosine_window},
    {"CumProd", 26, cumprod},
    {"BitCast", 26, bit_cast},
});

}  // namespace

std::span<const OpImporter> order_importers() {
  return kTable;
}

}  // namespace tenon::onnx
