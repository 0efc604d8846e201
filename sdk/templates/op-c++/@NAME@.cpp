// The op `@NAME@`: x / (1 + |x|), an example of an element-wise op. Its scalar program provides the
// reference, the code on every device that compiles, and the decomposition. Replace it with yours,
// or use .reference<f>() and .decompose<f>() instead. Its derivative would follow from the program,
// too; .partial states a shorter one. An op without a scalar program or decomposition has rules of
// its own: .jvp<f>(), .pull<f>(), or .no_derivative("why").
#include <tenon/cpp/op.hpp>

namespace {

using tenon::scalar::arg;

constexpr tenon::OpDraft declare() {
  tenon::OpDraft draft = tenon::op("@NAME@", tenon::kCompositeElementwise);
  draft.summary("x / (1 + |x|).")
      .operand("x", "the input", tenon::kFloat)
      .result("y", "same type as x")
      .example("@NAME@(f32[3] [-1, 0, 3]) -> f32[3] [-0.5, 0, 0.75]")
      .infer<tenon::infer_elementwise>()
      .scalar(arg(0) / (1 + abs(arg(0))))
      .partial(0, 1 / ((1 + abs(arg(0))) * (1 + abs(arg(0)))))
      .decompose_scalar();
  return draft;
}

constexpr auto& kOps = tenon::kOpPointers<declare>;
constexpr tenon_ops_t kTable = {sizeof(tenon_ops_t), nullptr, kOps.data(), kOps.size()};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_OPS_ID, kTable)};

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", kInterfaces)
