// The op `moving_average`: the mean of a window that slides along one dim. It has all facets:
// documentation, a schema with constraints and examples that break them, inference over symbolic
// dims, a reference, a decomposition into ops that every device has, a fold, and properties.
#include <tenon/cpp/op.hpp>

namespace {

using tenon::Builder;
using tenon::Dim;
using tenon::Dims;
using tenon::Eval;
using tenon::InferQuery;
using tenon::Node;
using tenon::Status;
using tenon::Value;

Status infer(const InferQuery& q) {
  const int64_t dim = q.i64("dim"), window = q.i64("window");
  TENON_TRY(q.require_axes("C1", std::span(&dim, 1), q.rank(0)));
  if (window < 1) return q.fail("C2", tenon::cat("window is ", window));
  Dims dims = q.dims(0);
  Dim& along = dims[static_cast<size_t>(dim)];
  TENON_TRY(q.require("C3", TENON_REL_LE, q.constant(window), along, "the window and the dim"));
  along = along - q.constant(window - 1);
  return q.result(q.dtype(0), dims);
}

// Clear rather than fast: every device is compared with it.
Status reference(const Eval& e) {
  const tenon::Array x = e.input(0), y = e.output();
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const int64_t window = e.i64("window");
  const std::vector<double> in = x.read<double>();
  const std::vector<int64_t> strides = tenon::strides_of(x.dims());
  std::vector<double> out;
  tenon::each_index(y.dims(), [&](const tenon::Index& i) {
    double sum = 0;
    for (int64_t k = 0; k < window; ++k)
      sum += in[static_cast<size_t>(tenon::offset_of(i, strides) + k * strides[dim])];
    out.push_back(sum / static_cast<double>(window));
  });
  y.write(out);
  return {};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  // Sums of narrow floats are kept in f32.
  const tenon_dtype_t wide = x.dtype() == TENON_F64 ? TENON_F64 : TENON_F32;
  std::vector<int64_t> window(x.rank(), 1);
  window[static_cast<size_t>(node.i64("dim"))] = node.i64("window");
  const Value sum = b.build("reduce_window", {b.convert(x, wide)}, {{"window", window}});
  const Value count = b.full_like(sum, static_cast<double>(node.i64("window")));
  return b.finish(out, {b.convert(b.build("div", {sum, count}), node.result().dtype())});
}

Value fold(Builder&, const Node& node) {
  return node.i64("window") == 1 ? node.operand(0) : Value();
}

constexpr tenon::OpDraft declare() {
  tenon::OpDraft draft = tenon::op("moving_average", tenon::kComposite);
  draft.summary("The mean of a window that slides along one dim.")
      .doc(
          "Element i of the result is the mean of elements i to i + window - 1; windows that "
          "would leave x are left out.")
      .operand("x", "the input", tenon::kFloat, 0, 1)
      .result("y", "element type of x; the dim is shorter by window - 1")
      .attr_i64("dim", "the dim along which the window slides", 0)
      .attr_i64("window", "the number of elements in a window", 1)
      .constraint("C1", "dim is a dim of x", "moving_average(f32[4]) {dim = 1}")
      .constraint("C2", "window is at least 1", "moving_average(f32[4]) {window = 0}")
      .constraint("C3", "the dim has at least window elements",
                  "moving_average(f32[4]) {window = 5}")
      .example("moving_average(f32[4] [1, 3, 5, 10]) {window = 2} -> f32[3] [2, 4, 7.5]")
      .example(
          "moving_average(f32[2, 3] [[1, 2, 3], [0, 0, 9]]) {dim = 1, window = 3} -> "
          "f32[2, 1] [[2], [3]]")
      .foreign_name("onnx", "com.acme", "MovingAverage")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .fold<fold>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(4);
  return draft;
}

constexpr auto& kOps = tenon::kOpPointers<declare>;
constexpr tenon_ops_t kTable = {sizeof(tenon_ops_t), nullptr, kOps.data(), kOps.size()};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_OPS_ID, kTable)};

}  // namespace

TENON_PLUGIN("moving_average", "0.1.0", kInterfaces)
