// Range, with bounds that are numbers, sizes, or data-dependent.
#include <array>
#include <cmath>

#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

bool too_many(NodeContext& n) {
  return n.fail("T0102", cat("it has more elements than the limit of ", limits().elements,
                             "; TENON_LIMIT_ELEMENTS raises it"));
}

// start + step * (0, 1, 2 ...); scalars of the range's type.
bool steps(NodeContext& n, Dim count, Value start, Value step) {
  const Dims dims = {count};
  const auto all = [&](Value v) { return n.builder().splat(n.convert(v, n.dtype(0)), dims); };
  Value out =
      n.build("iota", std::vector<Value>(), {{"shape", dims}, {"dtype", dtype(n.dtype(0))}});
  if (step.valid()) out = n.build("mul", {out, all(step)});
  return n.set(0, start.valid() ? n.build("add", {out, all(start)}) : out);
}

// ---- Known bounds ----

bool by_numbers(NodeContext& n, int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return n.fail("T0713", "the step is 0");
  const __int128 span = static_cast<__int128>(limit) - start;
  const __int128 all = (span + delta + (delta > 0 ? -1 : 1)) / delta;
  if (all > static_cast<__int128>(limits().elements)) return too_many(n);
  const int64_t count = all <= 0 ? 0 : static_cast<int64_t>(all);
  if (count <= 64) {
    Extents out;
    // A multiple of the step may wrap; adding the start then wraps back, because the sum lies
    // before the limit.
    for (int64_t i = 0; i < count; ++i) {
      out.push_back(
          *compute(n.graph(), Arithmetic::kAdd, Extent::of(start),
                   *compute(n.graph(), Arithmetic::kMul, Extent::of(i), Extent::of(delta))));
    }
    return n.set_known(0, std::move(out), {n.dim(count)}, n.dtype(0));
  }
  const auto scalar = [&](int64_t v, int64_t neutral) {
    return v == neutral ? Value() : n.builder().scalar_int(n.dtype(0), v);
  };
  return steps(n, n.dim(count), scalar(start, 0), scalar(delta, 1));
}

bool by_constants(NodeContext& n, double start, double limit, double delta) {
  if (delta == 0) return n.fail("T0713", "the step is 0");
  const double count = std::ceil((limit - start) / delta);
  if (!(count < static_cast<double>(limits().elements))) return too_many(n);
  return steps(n, n.dim(count > 0 ? static_cast<int64_t>(count) : 0), n.scalar(n.dtype(0), start),
               n.scalar(n.dtype(0), delta));
}

// With sizes among the bounds: the number of steps, rounded up, or 0 if they lead away from the
// limit.
bool by_sizes(NodeContext& n, const Extent& start, const Extent& limit, const Extent& delta) {
  const bool back = delta.is_number() && delta.number < 0;
  Dim step = delta.signed_dim(n.graph()),
      way = limit.signed_dim(n.graph()) - start.signed_dim(n.graph());
  if (back) {
    step = n.dim(0) - step;
    way = n.dim(0) - way;
  }
  if (!n.require(TENON_REL_LT, n.dim(0), step, "0 and the step")) return false;
  const Dim count = at_least_zero(n.graph(), (way + (step - n.dim(1))) / step);
  if (!count.valid()) return n.fail("T0713", "the number of its elements is beyond 64 bits");
  return steps(n, count, start.is(0) ? Value() : n.number_of(start),
               delta.is(1) ? Value() : n.number_of(delta));
}

// ---- Data-dependent bounds ----

Value apply(NodeContext& n, std::string_view op, Value x, Value y) {
  return n.build(op, {x, y});
}
Value holds(NodeContext& n, Value x, int64_t direction, Value y) {
  return n.build("compare", {x, y}, {{"direction", direction}});
}

// The number of steps as an i64 scalar, for integers: -floor((start - limit) / step).
Value counted(NodeContext& n, Value start, Value limit, Value step) {
  const auto wide = [&](Value v) { return n.convert(n.reshape(v, {}), TENON_I64); };
  start = wide(start), limit = wide(limit), step = wide(step);
  const Value zero = n.builder().scalar_int(TENON_I64, 0), way = apply(n, "sub", start, limit);
  // A distance beyond 64 bits changes its sign.
  const Value whole =
      n.build("compare", {holds(n, start, TENON_CMP_LT, limit), holds(n, way, TENON_CMP_LT, zero)},
              {{"direction", int64_t{TENON_CMP_EQ}}});
  const Value right = apply(n, "and", whole, holds(n, step, TENON_CMP_NE, zero));
  const Value checked =
      n.build("assert", {right, step},
              {{"message", "the step of a range is 0, or its bounds are beyond 64 bits apart"}});
  return n.build("neg", {apply(n, "floor_div", way, checked)});
}
Value counted_floats(NodeContext& n, Value start, Value limit, Value step) {
  const auto scalar = [&](Value v) { return n.reshape(v, {}); };
  const Value way = n.convert(apply(n, "sub", scalar(limit), scalar(start)), TENON_F64);
  const Value count = n.build("ceil", {apply(n, "div", way, n.convert(scalar(step), TENON_F64))});
  const Value right = n.build("is_finite", {count});
  return n.convert(
      n.build("assert", {right, count},
              {{"message", "the step of a range is 0, or a bound is not a finite number"}}),
      TENON_I64);
}

bool by_values(NodeContext& n) {
  for (size_t i = 0; i < 3; ++i) {
    if (n.rank(i) > 1 || (n.rank(i) == 1 && !n.require_equal(n.dims(i)[0], n.dim(1),
                                                             "the number of its bounds and 1")))
      return n.fail("T0713", "its inputs must be single numbers");
  }
  const Value start = n.value(0), limit = n.value(1), step = n.value(2);
  if (!n.ok() || !start.valid() || !limit.valid() || !step.valid()) return n.ok();
  const Value count =
      is_float(n.dtype(0)) ? counted_floats(n, start, limit, step) : counted(n, start, limit, step);
  const Dim size = n.size_from(apply(n, "max", count, n.builder().scalar_int(TENON_I64, 0)));
  return size.valid() && steps(n, size, n.reshape(start, {}), n.reshape(step, {}));
}

bool range_of_floats(NodeContext& n) {
  std::array<double, 3> bounds = {};
  for (size_t i = 0; i < 3; ++i) {
    const auto constant = n.computed(i);
    if (!constant) return n.ok() && by_values(n);
    bounds[i] = *constant;
  }
  return by_constants(n, bounds[0], bounds[1], bounds[2]);
}

bool range(NodeContext& n) {
  n.integer("stash_type", 1);  // elements are products of an index, which accumulate no error
  if (!n.arity(3, 3) || !n.same_types()) return false;
  if (is_float(n.dtype(0))) return range_of_floats(n);
  // A range from 0 by 1 has its limit as its size, a symbol that other values may share.
  const bool counts = n.computed(0) == 0.0 && n.computed(2) == 1.0;
  std::array<const Extents*, 3> bounds = {};
  for (size_t i = 0; i < 3; ++i) {
    n.computed(i);  // computes it if it follows from constants
    bounds[i] = counts ? n.need(i, "the limit") : n.known(i);
    if (!n.ok()) return false;
    if (bounds[i] == nullptr) return by_values(n);
    if (bounds[i]->size() != 1) return n.fail("T0713", "its inputs must be single numbers");
  }
  const Extent &a = (*bounds[0])[0], &b = (*bounds[1])[0], &d = (*bounds[2])[0];
  if (a.is_number() && b.is_number() && d.is_number())
    return by_numbers(n, a.number, b.number, d.number);
  // If the sign of the step is unknown, the run decides it.
  return d.is_number() || is_natural(n.graph(), d) ? by_sizes(n, a, b, d) : by_values(n);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Range", 11, range},
});

}  // namespace

std::span<const OpImporter> range_importers() {
  return kTable;
}

}  // namespace tenon::onnx
