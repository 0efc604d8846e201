// Ops that select elements: slices, gathers, scatters, and ops built from indices.
#include <algorithm>
#include <array>
#include <numeric>

#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

// ---- Slice ----

struct Range {
  Dim start, limit;
  int64_t stride = 1;
  bool reverse = false;
};

// A symbolic bound of Slice as a dim in [0, size]. If the sign is unknown, the bound is the sum of
// both cases, of which one is 0; min(1, max(0, -at)) selects the negative case, which counts from
// the end.
Dim symbolic_bound(NodeContext& n, Dim at, Dim size) {
  const Dim zero = n.dim(0);
  const Dim ahead = min(at_least_zero(n.graph(), at), size);
  const Dim from_end = at_least_zero(n.graph(), zero - at);
  return from_end.is(0) ? ahead : ahead + min(n.dim(1), from_end) * max(zero, at + size);
}

// A bound of Slice as a dim in [0, size]: negative bounds count from the end, far bounds are
// clamped.
Dim bound(NodeContext& n, const Extent& given, Dim size) {
  const Dim zero = n.dim(0);
  if (!given.is_number()) return symbolic_bound(n, given.dim(n.graph()), size);
  int64_t at = given.number;
  if (size.is_constant()) {
    const int64_t d = size.constant();
    return n.dim(std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -d) + d : at, 0, d));
  }
  // Exporters write "to the end" as one of several large numbers.
  if (at >= INT32_MAX) return size;
  if (at <= -INT32_MAX) return zero;
  if (at == 0) return zero;
  if (at < 0) {
    const Dim back = size - n.dim(-at);
    return compare(TENON_REL_LE, n.dim(-at), size) == TENON_YES ? back : max(back, zero);
  }
  return compare(TENON_REL_LE, n.dim(at), size) == TENON_YES ? n.dim(at) : min(n.dim(at), size);
}

bool forward(NodeContext& n, const Extent& start, const Extent& end, int64_t step, Dim size,
             Range* out) {
  out->start = bound(n, start, size);
  out->limit = bound(n, end, size);
  out->stride = step;
  if (!out->start.valid() || !out->limit.valid())
    return n.fail("T0713", "its bounds are beyond 64 bits");
  if (compare(TENON_REL_LE, out->start, out->limit) != TENON_YES)
    out->limit = max(out->start, out->limit);
  return out->limit.valid() || n.fail("T0713", "its bounds are beyond 64 bits");
}

// A negative step becomes a forward step over the reversed dim.
bool backward(NodeContext& n, const Extent& start, const Extent& end, int64_t step, Dim size,
              Range* out) {
  if (!start.is_number() || !end.is_number())
    return n.fail("T0714", "a negative step with symbolic bounds is not supported");
  if (step == INT64_MIN) return n.fail("T0713", "its step is beyond 64 bits");
  out->reverse = true;
  out->stride = -step;
  if (!size.is_constant()) {
    const bool whole =
        (start.number == -1 || start.number >= INT32_MAX) && end.number <= -INT32_MAX;
    if (!whole)
      return n.fail("T0714", "a negative step over part of a symbolic dim is not supported");
    out->start = n.dim(0);
    out->limit = size;
    return true;
  }
  const int64_t d = size.constant();
  const auto place = [&](int64_t at, int64_t first) {
    return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -d - 1) + d : at, first,
                               std::max(first, d - 1));
  };
  // A start from before the first element is the first one; only an end may lie before it.
  const int64_t from = d - 1 - place(start.number, d == 0 ? -1 : 0);
  const int64_t to = d - 1 - place(end.number, -1);
  out->start = n.dim(std::min(from, d));
  out->limit = n.dim(std::max(std::min(from, d), to));
  return true;
}

bool slice_known(NodeContext& n, const Range& range) {
  const Extents* from = n.rank(0) == 1 && is_in(n.dtype(0), kIndex) ? n.known(0) : nullptr;
  if (from == nullptr || !range.start.is_constant() || !range.limit.is_constant()) return false;
  Extents all = *from, out;
  if (range.reverse) std::reverse(all.begin(), all.end());
  for (int64_t i = range.start.constant(); i < range.limit.constant(); i += range.stride) {
    out.push_back(all[i]);
    if (range.stride > range.limit.constant()) break;
  }
  const auto count = static_cast<int64_t>(out.size());
  n.set_known(0, std::move(out), {n.dim(count)}, n.dtype(0));
  return true;
}

bool slice_by(NodeContext& n, const Extents& starts, const Extents& ends, std::vector<int64_t> axes,
              std::vector<int64_t> steps) {
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return n.fail("T0713", "its starts, ends, axes and steps differ in number");
  }
  n.axes(axes, n.rank(0));  // each once
  const Dims size = n.dims(0);
  Dims start(size.size(), n.dim(0)), limit = size;
  std::vector<int64_t> stride(size.size(), 1), reversed;
  bool none = true;
  for (size_t i = 0; i < axes.size() && n.ok(); ++i) {
    const int64_t axis = n.axis(axes[i], n.rank(0));
    if (steps[i] == 0) return n.fail("T0713", "a step is 0");
    Range range;
    const auto walk = steps[i] > 0 ? forward : backward;
    if (!n.ok() || !walk(n, starts[i], ends[i], steps[i], size[axis], &range)) return false;
    if (axes.size() == 1 && slice_known(n, range)) return n.ok();
    if (range.reverse) reversed.push_back(axis);
    none &= !range.reverse && range.stride == 1 && range.start.is(0) && range.limit == size[axis];
    start[axis] = range.start;
    limit[axis] = range.limit;
    stride[axis] = range.stride;
  }
  Value x = n.value(0);
  if (none) return n.set(0, x);
  if (!reversed.empty()) x = n.build("reverse", {x}, {{"dims", reversed}});
  return n.set(0, n.build("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", stride}}));
}

Extents extents(const std::vector<int64_t>& numbers) {
  Extents out;
  for (const int64_t i : numbers) out.push_back(Extent::of(i));
  return out;
}

bool slice_attributes(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  return slice_by(n, extents(n.integers("starts")), extents(n.integers("ends")), n.integers("axes"),
                  {});
}

bool slice(NodeContext& n) {
  if (!n.arity(3, 5)) return false;
  const Extents *starts = n.need(1, "the starts"), *ends = n.need(2, "the ends");
  std::vector<int64_t> axes, steps;
  if (n.has(3)) axes = n.need_numbers(3, "the axes").value_or(std::vector<int64_t>());
  if (n.has(4)) steps = n.need_numbers(4, "the steps").value_or(std::vector<int64_t>());
  return n.ok() && slice_by(n, *starts, *ends, std::move(axes), std::move(steps));
}

// ---- Gather ----

// Wraps negative indices, which count from the end. Constant indices are checked here; the op
// clamps those computed when the model runs.
Value indices(NodeContext& n, size_t operand, Dim size) {
  if (!is_in(n.dtype(operand), kIndex)) {
    n.fail("T0710", cat("its indices have element type ", dtype_name(n.dtype(operand)),
                        ", and need i32 or i64"));
    return Value();
  }
  const Extents* known = n.known(operand);
  bool negative = known == nullptr;
  for (size_t i = 0; known != nullptr && i < known->size(); ++i) {
    if (!(*known)[i].is_number()) {
      negative |= !is_natural(n.graph(), (*known)[i]);
      continue;
    }
    const int64_t at = (*known)[i].number;
    negative |= at < 0;
    if (size.is_constant() && (at < -size.constant() || at >= size.constant())) {
      n.fail("T0713", cat("its index ", at, " is outside a dim of ", size.constant()));
      return Value();
    }
  }
  const Value raw = n.value(operand);
  if (!negative || !raw.valid()) return raw;
  const tenon_dtype_t type = raw.dtype();
  Value extent = size.is_constant() ? n.builder().scalar_int(type, size.constant()) : Value();
  return extent.valid()
             ? n.build("select",
                       {n.build("compare", {raw, n.full_like(raw, 0)}, {{"direction", 2}}),
                        n.build("add", {raw, n.broadcast_to(extent, raw.dims())}), raw})
             : raw;
}

// The same for a dim that may be symbolic: its size is read from the operand.
Value wrapped(NodeContext& n, size_t operand, Value x, int64_t axis) {
  const Dim size = x.valid() ? x.dim(static_cast<uint32_t>(axis)) : Dim();
  const Value raw = indices(n, operand, size);
  if (!n.ok() || !raw.valid() || size.is_constant()) return raw;
  const Extents* known = n.known(operand);
  if (known != nullptr && std::all_of(known->begin(), known->end(),
                                      [&](const Extent& e) { return is_natural(n.graph(), e); })) {
    return raw;
  }
  const Value extent = n.convert(n.build("dim_size", {x}, {{"dim", axis}}), raw.dtype());
  return n.build("select", {n.build("compare", {raw, n.full_like(raw, 0)}, {{"direction", 2}}),
                            n.build("add", {raw, n.broadcast_to(extent, raw.dims())}), raw});
}

bool gather_known(NodeContext& n, int64_t axis) {
  const Extents* from =
      n.rank(0) == 1 && axis == 0 && is_in(n.dtype(0), kIndex) ? n.known(0) : nullptr;
  const Extents* at = from != nullptr && n.rank(1) <= 1 ? n.known(1) : nullptr;
  if (at == nullptr) return false;
  Extents out;
  for (const Extent& e : *at) {
    if (!e.is_number()) return false;
    const auto size = static_cast<int64_t>(from->size());
    if (e.number < -size || e.number >= size)
      return n.fail("T0713", cat("its index ", e.number, " is outside a dim of ", size)), true;
    out.push_back((*from)[e.number < 0 ? e.number + size : e.number]);
  }
  n.set_known(0, std::move(out), n.dims(1), n.dtype(0));
  return true;
}

bool gather(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  if (!n.ok()) return false;
  if (gather_known(n, axis)) return n.ok();
  const Value x = n.value(0);
  const Value at = wrapped(n, 1, x, axis);
  return n.set(0, n.build("take", {x, at}, {{"dim", axis}, {"mode", "in_bounds"}}));
}

bool gather_elements(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  if (!n.ok()) return false;
  if (n.rank(0) != n.rank(1)) return n.fail("T0713", "its data and indices differ in rank");
  Value x = n.value(0);
  const Value at = wrapped(n, 1, x, axis);
  if (!n.ok() || !at.valid()) return n.ok();
  // Other dims of the indices may be smaller: the data is cut to them.
  Dims limit = n.dims(0);
  bool cut = false;
  for (size_t i = 0; i < limit.size(); ++i) {
    if (static_cast<int64_t>(i) == axis || limit[i] == n.dims(1)[i]) continue;
    limit[i] = n.dims(1)[i];
    cut = true;
  }
  if (cut) x = n.build("slice", {x}, {{"start", Dims(limit.size(), n.dim(0))}, {"limit", limit}});
  return n.set(0, n.build("take_along", {x, at}, {{"dim", axis}, {"mode", "in_bounds"}}));
}

// Vectors of indices into the first dims; each component is wrapped by its own dim.
Value index_vectors(NodeContext& n, size_t operand, int64_t count, int64_t first_dim) {
  const Value raw = n.value(operand);
  if (!is_in(n.dtype(operand), kIndex)) {
    n.fail("T0710", "its indices need element type i32 or i64");
    return Value();
  }
  const Dims dims = n.dims(operand);
  std::vector<Value> sizes;
  for (int64_t i = 0; i < count; ++i) {
    const Value size =
        n.convert(n.build("dim_size", {n.value(0)}, {{"dim", first_dim + i}}), raw.dtype());
    sizes.push_back(n.reshape(size, {n.dim(1)}));
  }
  const Value all = sizes.size() == 1 ? sizes[0] : n.build("concat", sizes, {{"dim", 0}});
  return n.build("select", {n.build("compare", {raw, n.full_like(raw, 0)}, {{"direction", 2}}),
                            n.build("add", {raw, n.broadcast_to(all, dims)}), raw});
}

std::vector<int64_t> count_up(int64_t from, int64_t to) {
  std::vector<int64_t> out;
  for (int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}

// The length of the index vectors; -1 after a failure.
int64_t vector_length(NodeContext& n, int64_t batch) {
  if (n.rank(1) < 1 || batch < 0 || batch >= n.rank(1) || batch >= n.rank(0) ||
      !n.dims(1).back().is_constant()) {
    n.fail("T0713", "its indices must end in a constant dim, and batch dims lie before it");
    return -1;
  }
  const int64_t length = n.dims(1).back().constant();
  if (length < 1 || length > n.rank(0) - batch) {
    n.fail("T0713",
           cat("its index vectors have ", length, " entries, the data has ", n.rank(0), " dims"));
    return -1;
  }
  return length;
}

bool gather_nd(NodeContext& n) {
  const int64_t batch = n.integer("batch_dims", 0);
  if (!n.arity(2, 2)) return false;
  const int64_t length = vector_length(n, batch);
  if (length < 0) return false;
  Dims sizes = n.dims(0);
  for (int64_t i = 0; i < batch + length; ++i) sizes[i] = n.dim(1);
  const int64_t lead = n.rank(1) - 1, rest = n.rank(0) - batch - length;
  const Value at = index_vectors(n, 1, length, batch);
  return n.set(0, n.build("gather", {n.value(0), at},
                          {{"sizes", sizes},
                           {"offset_dims", count_up(lead, lead + rest)},
                           {"collapsed_dims", count_up(batch, batch + length)},
                           {"index_map", count_up(batch, batch + length)},
                           {"batch_dims", count_up(0, batch)},
                           {"index_batch_dims", count_up(0, batch)},
                           {"index_vector_dim", lead},
                           {"mode", "in_bounds"}}));
}

bool scatter_nd(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const std::string_view reduction = n.text("reduction", "none");
  if (reduction != "none" && reduction != "add" && reduction != "mul" && reduction != "max" &&
      reduction != "min") {
    return n.fail("T0708", "attribute 'reduction' must be none, add, mul, max or min");
  }
  const int64_t length = vector_length(n, 0);
  if (length < 0) return false;
  const int64_t lead = n.rank(1) - 1, rest = n.rank(0) - length;
  const Value at = index_vectors(n, 1, length, 0);
  return n.set(0, n.build("scatter", {n.value(0), at, n.value(2)},
                          {{"kind", reduction == "none" ? std::string_view("set") : reduction},
                           {"window_dims", count_up(lead, lead + rest)},
                           {"inserted_dims", count_up(0, length)},
                           {"index_map", count_up(0, length)},
                           {"index_vector_dim", lead},
                           {"mode", "in_bounds"}}));
}

// ---- From indices ----

bool one_hot(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0), 1);
  // Any number type is allowed, but a symbol only represents integers.
  const bool whole = is_in(n.dtype(1), kInt);
  const auto number = whole ? std::nullopt : n.need_constants(1, "the depth");
  const Extents rounded = number && number->size() == 1
                              ? Extents{Extent::of(saturate<int64_t>(number->front()))}
                              : Extents();
  const Extents* depth = whole ? n.need(1, "the depth") : &rounded;
  if (!n.ok()) return false;
  if (depth->size() != 1 || ((*depth)[0].is_number() && (*depth)[0].number < 1))
    return n.fail("T0713", "its depth must be one positive number");
  if (n.dims(2).size() != 1 || !n.dims(2)[0].is(2))
    return n.fail("T0713", "its values must be two: off and on");
  const Dim size = (*depth)[0].dim(n.graph());
  Value at = n.value(0);
  if (!is_in(at.dtype(), kInt)) at = n.convert(at, TENON_I64);
  if (!size.is_constant()) return n.fail("T0714", "its depth must be constant");
  // -depth to -1 count from the end; indices outside on either side give the off value.
  const Value extent =
      n.builder().splat(n.builder().scalar_int(at.dtype(), size.constant()), at.dims());
  at = n.build("select", {n.build("compare", {at, n.full_like(at, 0)}, {{"direction", 2}}),
                          n.build("add", {at, extent}), at});
  Value hot = n.build("one_hot", {at}, {{"depth", Dims{size}}, {"dtype", dtype(TENON_F32)}});
  std::vector<int64_t> perm = count_up(0, n.rank(0));
  perm.insert(perm.begin() + axis, n.rank(0));
  hot = n.transpose(hot, perm);
  if (!hot.valid()) return n.ok();
  const auto pick = [&](int64_t i) {
    const Value v =
        n.build("slice", {n.value(2)}, {{"start", Dims{n.dim(i)}}, {"limit", Dims{n.dim(i + 1)}}});
    return n.broadcast_to(n.reshape(v, {}), hot.dims());
  };
  const Value is_on = n.build("compare", {hot, n.full_like(hot, 0)}, {{"direction", 1}});
  return n.set(0, n.build("select", {is_on, pick(1), pick(0)}));
}

bool cumsum(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const auto given = n.need_numbers(1, "the axis");
  if (!given || given->size() != 1) return n.fail("T0713", "its axis must be one number");
  const int64_t axis = n.axis(given->front(), n.rank(0));
  return n.ok() && n.set(0, n.build("cumsum", {n.value(0)},
                                    {{"dim", axis},
                                     {"reverse", n.integer("reverse", 0)},
                                     {"exclusive", n.integer("exclusive", 0)}}));
}

bool trilu(NodeContext& n) {
  if (!n.arity(1, 2)) return false;
  const bool upper = n.integer("upper", 1) != 0;
  int64_t k = 0;
  if (n.has(1)) {
    const auto given = n.need_numbers(1, "the diagonal");
    if (!given || given->size() != 1) return n.fail("T0713", "its diagonal must be one number");
    k = given->front();
  }
  const int64_t rank = n.rank(0);
  if (rank < 2) return n.fail("T0713", "it needs an input of rank 2 or more");
  const Dims dims = n.dims(0);
  const auto index = [&](int64_t dim) {
    return n.build("iota", std::vector<Value>(),
                   {{"shape", dims}, {"dim", dim}, {"dtype", dtype(TENON_I64)}});
  };
  const Value row = index(rank - 2), column = index(rank - 1);
  if (!row.valid()) return n.ok();
  const Value edge =
      n.build("add", {row, n.builder().splat(n.builder().scalar_int(TENON_I64, k), dims)});
  const Value keep = n.build("compare", {column, edge}, {{"direction", upper ? 5 : 3}});
  return n.set(0, n.build("select", {keep, n.value(0), n.full_like(n.value(0), 0)}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Slice", 1, slice_attributes},
    {"Slice", 10, slice},
    {"Gather", 1, gather},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"ScatterND", 11, scatter_nd},
    {"OneHot", 9, one_hot},
    {"CumSum", 11, cumsum},
    {"Trilu", 14, trilu},
});

}  // namespace

std::span<const OpImporter> index_importers() {
  return kTable;
}

}  // namespace tenon::onnx
