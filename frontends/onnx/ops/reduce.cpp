// Reductions and the softmax family.
#include <algorithm>
#include <array>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

// ---- Reductions ----

// Several steps: in f32 for the narrow types, because a square, a sum and its root have ranges of
// their own.
Value reduce(NodeContext& n, Value given, const std::vector<int64_t>& dims) {
  if (!given.valid()) return Value();  // failed, or postponed
  const std::string_view op = n.op();
  const Value x = n.wide(given);
  const auto sum = [&](Value v) { return n.build("reduce_sum", {v}, {{"dims", dims}}); };
  if (op == "ReduceSum") return sum(given);
  if (op == "ReduceMax") return n.build("reduce_max", {given}, {{"dims", dims}});
  if (op == "ReduceMin") return n.build("reduce_min", {given}, {{"dims", dims}});
  if (op == "ReduceProd") return n.build("reduce_prod", {given}, {{"dims", dims}});
  if (op == "ReduceL1") return sum(n.build("abs", {x}));
  if (op == "ReduceL2") return n.build("sqrt", {sum(n.build("mul", {x, x}))});
  if (op == "ReduceSumSquare") return sum(n.build("mul", {x, x}));
  if (op == "ReduceLogSum") return n.build("log", {sum(x)});
  if (op == "ReduceLogSumExp") return n.build("logsumexp", {x}, {{"dims", dims}});
  if (is_float(x.dtype())) return n.build("mean", {x}, {{"dims", dims}});
  // The mean of integers is their sum divided by their number, rounded to zero.
  int64_t count = 1;
  for (const int64_t d : dims) {
    const Dim dim = x.dim(static_cast<uint32_t>(d));
    if (!dim.is_constant() || __builtin_mul_overflow(count, dim.constant(), &count)) {
      n.fail("T0714", "the mean of integers over symbolic dims is not supported");
      return Value();
    }
  }
  if (count == 0) {
    n.fail("T0713", "there is no mean of no integers");
    return Value();
  }
  const Value total = sum(x);
  return n.build("div", {total, n.full_like(total, static_cast<double>(count))});
}

// Whether a reduction over no axes gives its operand. The others square, root or take logarithms.
bool keeps_one(std::string_view op) {
  return op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin" || op == "ReduceProd" ||
         op == "ReduceMean" || op == "ReduceLogSumExp";
}

// none_is_all: no axes are all axes, and not none.
bool reduce_over(NodeContext& n, std::vector<int64_t> given, bool none_is_all) {
  const int64_t rank = n.rank(0);
  const bool named = !given.empty();
  if (!named && !none_is_all && keeps_one(n.op())) return n.set(0, n.item(0));
  std::vector<int64_t> dims = n.axes(std::move(given), rank);
  if (!n.ok()) return false;
  for (int64_t i = 0; !named && none_is_all && i < rank; ++i) dims.push_back(i);
  Value out = n.convert(reduce(n, n.value(0), dims), n.dtype(0));
  if (n.integer("keepdims", 1) != 0) {
    Dims kept = n.dims(0);
    for (const int64_t d : dims) kept[d] = n.dim(1);
    out = n.reshape(out, kept);
  }
  return n.set(0, out);
}

bool reduce_attribute(NodeContext& n) {
  n.integer("keepdims", 1);
  return n.arity(1, 1) && reduce_over(n, n.integers("axes"), true);
}
bool reduce_input(NodeContext& n) {
  n.integer("keepdims", 1);
  const bool nothing = n.integer("noop_with_empty_axes", 0) != 0;
  if (!n.arity(1, 2)) return false;
  if (!n.has(1)) return reduce_over(n, {}, !nothing);
  const auto axes = n.need_numbers(1, "the axes");
  return axes && reduce_over(n, *axes, !nothing);
}

bool arg(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const bool keep = n.integer("keepdims", 1) != 0;
  const int64_t last = n.integer("select_last_index", 0);
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  if (!n.ok()) return false;
  if (n.dims(0)[axis].is(0)) return n.fail("T0713", "its axis has no elements to choose from");
  Value out = n.build(n.op() == "ArgMax" ? "argmax" : "argmin", {n.value(0)},
                      {{"dim", axis}, {"last_index", last}});
  if (keep) {
    Dims kept = n.dims(0);
    kept[axis] = n.dim(1);
    out = n.reshape(out, kept);
  }
  return n.set(0, out);
}

// ---- Softmax, LogSoftmax, Hardmax ----

Value one_axis(NodeContext& n, Value x, int64_t axis) {
  if (n.op() == "Softmax") return n.build("softmax", {x}, {{"dim", axis}});
  if (n.op() == "LogSoftmax") return n.build("log_softmax", {x}, {{"dim", axis}});
  const Dims dims = x.valid() ? x.dims() : Dims();
  const Value best = n.build("argmax", {x}, {{"dim", axis}});
  if (!best.valid()) return Value();
  Dims kept = dims;
  kept[axis] = n.dim(1);
  const Value index = n.build("iota", std::vector<Value>(),
                              {{"shape", dims}, {"dim", axis}, {"dtype", dtype(TENON_I64)}});
  const Value is_best =
      n.build("compare", {index, n.broadcast_to(n.reshape(best, kept), dims)}, {{"direction", 0}});
  return n.convert(is_best, x.dtype());
}

bool softmax(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  return n.ok() && n.set(0, one_axis(n, n.value(0), axis));
}

// Before opset 13 the input was treated as a matrix: dims before the axis by dims from the axis on.
bool softmax_flattened(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t axis = n.axis(n.integer("axis", 1), n.rank(0));
  if (!n.ok()) return false;
  const Dims dims = n.dims(0);
  if (axis == n.rank(0) - 1) return n.set(0, one_axis(n, n.value(0), axis));
  const Dim rows = n.product(std::span(dims).first(axis)),
            columns = n.product(std::span(dims).subspan(axis));
  if (!n.ok()) return false;
  return n.set(0, n.reshape(one_axis(n, n.reshape(n.value(0), {rows, columns}), 1), dims));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"ReduceSum", 1, reduce_attribute},
    {"ReduceSum", 13, reduce_input},
    {"ReduceMean", 1, reduce_attribute},
    {"ReduceMean", 18, reduce_input},
    {"ReduceMax", 1, reduce_attribute},
    {"ReduceMax", 18, reduce_input},
    {"ReduceMin", 1, reduce_attribute},
    {"ReduceMin", 18, reduce_input},
    {"ReduceProd", 1, reduce_attribute},
    {"ReduceProd", 18, reduce_input},
    {"ReduceL1", 1, reduce_attribute},
    {"ReduceL1", 18, reduce_input},
    {"ReduceL2", 1, reduce_attribute},
    {"ReduceL2", 18, reduce_input},
    {"ReduceSumSquare", 1, reduce_attribute},
    {"ReduceSumSquare", 18, reduce_input},
    {"ReduceLogSum", 1, reduce_attribute},
    {"ReduceLogSum", 18, reduce_input},
    {"ReduceLogSumExp", 1, reduce_attribute},
    {"ReduceLogSumExp", 18, reduce_input},
    {"ArgMax", 1, arg},
    {"ArgMin", 1, arg},
    {"Softmax", 1, softmax_flattened},
    {"Softmax", 13, softmax},
    {"LogSoftmax", 1, softmax_flattened},
    {"LogSoftmax", 13, softmax},
    {"Hardmax", 1, softmax_flattened},
    {"Hardmax", 13, softmax},
});

}  // namespace

std::span<const OpImporter> reduce_importers() {
  return kTable;
}

}  // namespace tenon::onnx
