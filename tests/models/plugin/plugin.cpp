// Ops and importers that nodes of ONNX files reach: `acme.mish2` by its name, `acme.offset` by a
// name that it declares, and the domain `org.acme` through importers.
#include <tenon/abi/importers.h>
#include <tenon/cpp/op.hpp>

namespace {

using tenon::Builder;
using tenon::Dims;
using tenon::InferQuery;
using tenon::Node;
using tenon::Status;
using tenon::Value;
using tenon::scalar::arg;

constexpr tenon::OpDraft mish2() {
  tenon::OpDraft draft = tenon::op("acme.mish2", tenon::kCompositeElementwise);
  draft.summary("x tanh(softplus(x)) + 1.")
      .operand("x", "the input", tenon::kFloat)
      .result("y", "same type as x")
      .example("acme.mish2(f32[1] [0]) -> f32[1] [1]")
      .infer<tenon::infer_elementwise>()
      .scalar(arg(0) * tanh(log1p(exp(arg(0)))) + 1)
      .decompose_scalar()
      .tolerance(8);
  return draft;
}

// x * scale + offset, stretched to shape, in another type: attributes of all kinds.
Status infer_offset(const InferQuery& q) {
  if (q.i64("times") < 1) return q.fail("C1", tenon::cat("times is ", q.i64("times")));
  const tenon_dtype_t type = q.dtype("dtype") == TENON_DTYPE_NONE ? q.dtype(0) : q.dtype("dtype");
  TENON_TRY(q.result(type, q.dims("shape")));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_offset(Builder& b, const Node& node, tenon_value_t* out) {
  Value x = node.operand(0);
  const double scale = node.f64("scale") * static_cast<double>(node.i64("times"));
  x = b.build("mul", {x, b.full_like(x, scale)});
  if (node.operand(1).valid()) x = b.build("add", {x, node.operand(1)});
  Value y = b.broadcast(x, node.result(0).dims(), std::vector<int64_t>{1});
  y = b.convert(y, node.result(0).dtype());
  return b.finish(out, {node.text("sign") == "minus" ? b.build("neg", {y}) : y, x});
}
constexpr tenon::OpDraft offset() {
  tenon::OpDraft draft = tenon::op("acme.offset", tenon::kComposite);
  draft.summary("x scaled, shifted and repeated.")
      .operand("x", "a row", tenon::kFloat, 1, 1, 1)
      .optional("offset", "what is added", tenon::kFloat, 1, 1, 1)
      .result("y", "of shape")
      .result("row", "one row of it, before it is converted")
      .attr_f64("scale", "a factor", 1)
      .attr_i64("times", "another factor", 1)
      .attr_string("sign", "plus, or minus to negate", "plus", "plus|minus")
      .attr_dtype("dtype", "of the result; NONE: that of x")
      .attr_dims("shape", "the dims of y")
      .required()
      .constraint("C1", "times is at least 1", "acme.offset(f32[2]) {shape = [1, 2], times = 0}")
      .example(
          "acme.offset(f32[1] [3]) {shape = [2, 1], scale = 2.0} -> f32[2, 1] [[6], [6]], "
          "f32[1] [6]")
      .foreign_name("onnx", "com.acme", "Offset", 2)
      .infer<infer_offset>()
      .decompose<decompose_offset>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

constexpr auto& kOps = tenon::kOpPointers<mish2, offset>;
constexpr tenon_ops_t kTable = {sizeof(tenon_ops_t), nullptr, kOps.data(), kOps.size()};

// ---- Importers ----

// LogOf(x), base: an integer attribute; log(x) / log(base).
Status log_of(void*, const tenon_import_t* node, tenon_value_t* out) {
  int64_t base = 2;
  for (uint32_t i = 0; i < node->attr_count; ++i) {
    const tenon_attr_t& a = node->attrs[i];
    if (tenon::sym_text(a.name) != "base" || a.kind != TENON_ATTR_I64)
      return tenon::fail(TENON_INVALID_ARGUMENT, "LogOf takes one integer, base");
    base = a.u.i;
  }
  if (node->operand_count != 1 || base < 2)
    return tenon::fail(TENON_INVALID_ARGUMENT, "LogOf takes one input and a base from 2 on");
  Builder b(*node->builder);
  const Value x(b.graph(), node->operands[0]);
  const Value two = b.full_like(x, static_cast<double>(base));
  return b.finish(out, {b.build("div", {b.build("log", {x}), b.build("log", {two})})});
}
// Since version 3 the same node means the exponential.
Status exp_of(void*, const tenon_import_t* node, tenon_value_t* out) {
  if (node->operand_count != 1) return tenon::fail(TENON_INVALID_ARGUMENT, "LogOf takes one input");
  Builder b(*node->builder);
  return b.finish(out, {b.build("exp", {Value(b.graph(), node->operands[0])})});
}
// Forgets its result.
Status nothing(void*, const tenon_import_t*, tenon_value_t*) {
  return {};
}

const tenon_importer_t kImporters[] = {
    {tenon::str("LogOf"), 1, 0, nullptr, tenon::entry<log_of>},
    {tenon::str("LogOf"), 3, 0, nullptr, tenon::entry<exp_of>},
    {tenon::str("Nothing"), 1, 0, nullptr, tenon::entry<nothing>},
};
const tenon_importers_t kImportersTable = {sizeof(tenon_importers_t),
                                           sizeof(tenon_importer_t),
                                           tenon::str("onnx"),
                                           tenon::str("org.acme"),
                                           kImporters,
                                           std::size(kImporters)};

const tenon_interface_t kInterfaces[] = {tenon::offer(TENON_OPS_ID, kTable),
                                         tenon::offer(TENON_IMPORTERS_ID, kImportersTable)};

}  // namespace

TENON_PLUGIN("foreign-ops", "0.1.0", kInterfaces)
