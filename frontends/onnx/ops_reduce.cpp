// Reductions and the softmax family.
#include <algorithm>
#include <array>

#include "importer.h"

namespace tenon::onnx {
namespace {

// ---- Reductions ----

Value reduce(NodeContext& n, Value x, const std::vector<int64_t>& dims) {
  if (!x.valid()) return Value();  // failed, or postponed
  const std::string_view op = n.op();
  const auto sum = [&](Value v) { return n.build("reduce_sum", {v}, {{"dims", dims}}); };
  if (op == "ReduceSum") return sum(x);
  if (op == "ReduceMax") return n.build("reduce_max", {x}, {{"dims", dims}});
  if (op == "ReduceMin") return n.build("reduce_min", {x}, {{"dims", dims}});
  if (op == "ReduceProd") return n.build("reduce_prod", {x}, {{"dims", dims}});
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
  const Value total = sum(x);
  return n.build("div", {total, n.full_like(total, static_cast<double>(count))});
}

bool reduce_over(NodeContext& n, std::vector<int64_t> given, bool none_is_all) {
  const int64_t rank = n.rank(0);
  if (given.empty() && !none_is_all) return n.set(0, n.item(0));
  std::vector<int64_t> dims = n.axes(std::move(given), rank);
  if (!n.ok()) return false;
  if (dims.empty()) {
    for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
  }
  Value out = dims.empty() && rank == 0 ? reduce(n, n.value(0), {}) : reduce(n, n.value(0), dims);
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
