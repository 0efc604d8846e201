// A program with an operator of its own, in one file: the op by a scalar program, from which
// devices generate code, and a kernel that competes with that code. Then the op again, with another
// meaning. docs/guide/op.md explains it.
#include <cstdio>
#include <vector>

#include <tenon/cpp/register.hpp>
#include <tenon/cpp/session.hpp>

namespace {

template <int kScale>
constexpr tenon::OpDraft scale_shift() {
  return tenon::op("demo.scale_shift", tenon::kElementwise, tenon::kByContent)
      .summary("A multiple of x, plus 1.")
      .operand("x", "numbers", tenon::kFloat)
      .result("y", "same type as x")
      .example(kScale == 2 ? "demo.scale_shift(f32[1] [10]) -> f32[1] [21]"
                           : "demo.scale_shift(f32[1] [10]) -> f32[1] [31]")
      .infer<tenon::infer_elementwise>()
      .scalar(tenon::scalar::arg(0) * kScale + 1);
}

tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  if (call->call->operands[0].type.rank != 1) return tenon_simple_refuse(call, "vectors only");
  plan->cost_ns = 1;
  return TENON_OK;
}
template <int kScale>
tenon_code_t run(const tenon_simple_run_t* run) {
  const auto* x = static_cast<const float*>(run->inputs[0].data);
  auto* out = static_cast<float*>(run->outputs[0].data);
  for (uint64_t i = 0; i < run->inputs[0].elements; ++i) out[i] = x[i] * kScale + 1;
  return TENON_OK;
}

template <int kScale>
tenon::Status define(bool with_kernel) {
  tenon::Registration plugin("demo");
  plugin.ops<scale_shift<kScale>>();
  if (with_kernel)
    plugin.kernels("cpu", {{"demo.scale_shift", TENON_DTYPE_BIT(TENON_F32), suits, run<kScale>}});
  return plugin.add();
}

constexpr std::string_view kModel =
    "tenon.tir 1\n"
    "graph @g(%x: f32[2]) -> (y: f32[2]) {\n"
    "  %y = demo.scale_shift(%x) : f32[2]\n"
    "  yield %y\n"
    "}\n";

tenon::Status value(const tenon::Program& program, float* out) {
  const std::vector<float> x = {10, 10};
  const tenon::Input inputs[] = {tenon::ArrayView::of(x, {2})};
  std::vector<tenon::Output> outputs(1);
  TENON_TRY(program.call(inputs, outputs));
  *out = outputs[0].as<float>()[0];
  return {};
}

tenon::Status compile(const tenon::Session& session, tenon::Program* out) {
  tenon::Model model;
  TENON_TRY(session.load_bytes(kModel, "g.tir", &model));
  return model.compile({}, out);
}

// 21 from the op's scalar program, 21 from its kernel, 31 from its new meaning, 21 from the program
// of before.
tenon::Status values(float (&out)[4]) {
  tenon::Session session;
  TENON_TRY(session.open());
  tenon::Program generated, by_kernel, redefined;
  TENON_TRY(define<2>(false));
  TENON_TRY(compile(session, &generated));
  TENON_TRY(define<2>(true));
  TENON_TRY(compile(session, &by_kernel));
  TENON_TRY(define<3>(true));
  TENON_TRY(compile(session, &redefined));
  TENON_TRY(value(generated, &out[0]));
  TENON_TRY(value(by_kernel, &out[1]));
  TENON_TRY(value(redefined, &out[2]));
  return value(generated, &out[3]);
}

}  // namespace

int main() {
  float out[4] = {};
  if (!values(out).ok()) {
    std::fprintf(stderr, "%s\n", tenon::failure_text().c_str());
    return 1;
  }
  std::printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
  return out[0] == 21 && out[1] == 21 && out[2] == 31 && out[3] == 21 ? 0 : 1;
}
