// com.microsoft's QLinear ops: dequantise, compute in f32, quantise.
#include <array>
#include <span>

#include "frontends/onnx/ops/quantise/quantise.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// Operands: what is not quantised, then numbers with scale and zero point `count` times, then the
// scale and the zero point of the result.
struct Form {
  std::string_view op, real;  // real: the op of ONNX in between
  int64_t version;            // whose attributes and operands it has
  size_t plain, count;
};
constexpr Form kForms[] = {
    {"QLinearAdd", "Add", 14, 0, 2},
    {"QLinearMul", "Mul", 14, 0, 2},
    {"QLinearWhere", "Where", 16, 1, 2},
    {"QLinearSigmoid", "Sigmoid", 13, 0, 1},
    {"QLinearLeakyRelu", "LeakyRelu", 16, 0, 1},
    {"QLinearReduceMean", "ReduceMean", 13, 0, 1},
    {"QLinearSoftmax", "Softmax", 13, 0, 1},
    {"QLinearAveragePool", "AveragePool", 19, 0, 1},
    {"QLinearGlobalAveragePool", "GlobalAveragePool", 1, 0, 1},
};

const Form& form_of(std::string_view op) {
  const Form* at = kForms;
  while (at->op != op) ++at;
  return *at;
}

// The dims of [batch, spatial..., channels] in the order [batch, channels, spatial...], or back.
Value turned(NodeContext& n, Value x, bool back) {
  if (!x.valid() || x.rank() < 3) return x;
  const auto rank = static_cast<int64_t>(x.rank());
  std::vector<int64_t> perm = {0};
  if (!back) perm.push_back(rank - 1);
  for (int64_t i = back ? 2 : 1; i < (back ? rank : rank - 1); ++i) perm.push_back(i);
  if (back) perm.push_back(1);
  return n.transpose(x, perm);
}

bool through_floats(NodeContext& n) {
  const Form& form = form_of(n.op());
  const size_t scale = form.plain + 3 * form.count;
  if (!n.arity(form.plain + 2, scale + 2)) return false;
  const bool pools = form.real.ends_with("Pool"), softmax = form.real == "Softmax";
  const bool channels_last = pools && n.integer("channels_last", 0) != 0;
  const int64_t version = softmax ? n.integer("opset", form.version) : form.version;
  if (version < 1 || version > kNewestOpset)
    return n.fail("T0708", cat("attribute 'opset' is ", version, ", which is not known"));
  std::vector<Item> operands;
  for (size_t i = 0; i < form.plain; ++i) operands.push_back(n.item(i));
  for (size_t i = form.plain; i < scale; i += 3) {
    const Value x = dequantised(n, Quantised{i, i + 1, i + 2});
    if (!x.valid()) return n.ok();
    operands.push_back(Item::of(channels_last ? turned(n, x, false) : x));
  }
  const std::vector<Item> results = n.as(form.real, version, std::move(operands));
  if (results.empty()) return n.ok();
  const Value y = channels_last ? turned(n, results[0].value(), true) : results[0].value();
  return set_quantised(n, y, scale, scale + 1, zero_type(n, scale + 1, n.dtype(form.plain)));
}

// A MaxPool of bytes, channels last.
bool nhwc_max_pool(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Value x = turned(n, n.value(0), false);
  if (!n.ok() || !x.valid()) return n.ok();
  const std::vector<Item> results = n.as("MaxPool", 12, {Item::of(x)});
  return results.empty() ? n.ok() : n.set(0, turned(n, results[0].value(), true));
}

// Its operands begin with the result's scale and zero point.
bool concat(NodeContext& n) {
  if (!n.arity(5, SIZE_MAX)) return false;
  if (n.input_count() % 3 != 2)
    return n.fail("T0709",
                  cat("it has ", n.input_count(), " inputs, and takes 2 and 3 for each part"));
  std::vector<Item> parts;
  for (size_t i = 2; i < n.input_count(); i += 3) {
    const Value part = dequantised(n, Quantised{i, i + 1, i + 2});
    if (!part.valid()) return n.ok();
    parts.push_back(Item::of(part));
  }
  const std::vector<Item> results = n.as("Concat", 13, std::move(parts));
  return results.empty() ? n.ok() : set_quantised(n, results[0].value(), 0, 1, zero_type(n, 1));
}

// Products of integers without their zero points, in i32.
bool mul_integer(NodeContext& n) {
  if (!n.arity(2, 4)) return false;
  const auto part = [&](size_t q, size_t zero) {
    const Value x = n.convert(n.value(q), TENON_I32);
    if (!n.has(zero) || !x.valid()) return x;
    return n.build("sub", {x, spread(n, n.convert(n.value(zero), TENON_I32), x.dims(), {})});
  };
  const auto both = n.broadcast({part(0, 1), part(2, 3)});
  return both.size() == 2 ? n.set(0, n.build("mul", both)) : n.ok();
}

bool reduce_sum_integer(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Value x = n.convert(n.value(0), TENON_I32);
  if (!x.valid()) return n.ok();
  const std::vector<Item> results = n.as("ReduceSum", 11, {Item::of(x)});
  return results.empty() ? n.ok() : n.set(0, results[0]);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"QLinearAdd", 1, through_floats, kMicrosoft},
    {"QLinearMul", 1, through_floats, kMicrosoft},
    {"QLinearWhere", 1, through_floats, kMicrosoft},
    {"QLinearSigmoid", 1, through_floats, kMicrosoft},
    {"QLinearLeakyRelu", 1, through_floats, kMicrosoft},
    {"QLinearReduceMean", 1, through_floats, kMicrosoft},
    {"QLinearSoftmax", 1, through_floats, kMicrosoft},
    {"QLinearAveragePool", 1, through_floats, kMicrosoft},
    {"QLinearGlobalAveragePool", 1, through_floats, kMicrosoft},
    {"QLinearConcat", 1, concat, kMicrosoft},
    {"NhwcMaxPool", 1, nhwc_max_pool, kMicrosoft},
    {"MulInteger", 1, mul_integer, kMicrosoft},
    {"ReduceSumInteger", 1, reduce_sum_integer, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> quantised_linear_importers() {
  return kTable;
}

}  // namespace tenon::onnx
