// next_after: the next floating-point number towards another.
#include "compose.h"

namespace tenon::ops::next_after {

Status infer_next(const InferQuery& q) {
  return infer_elementwise(q);
}
Status reference_next(const Eval& e) {
  const Array x = e.input(0), y = e.input(1), z = e.output();
  each_index(x.dims(), [&](const Index& i) {
    const double a = load_double(x.dtype(), x.at(i)), c = load_double(y.dtype(), y.at(i));
    if (x.dtype() == TENON_F32) {
      store_as(z.at(i), std::nextafter(static_cast<float>(a), static_cast<float>(c)));
    } else {
      store_double(z.dtype(), z.at(i), std::nextafter(a, c));
    }
  });
  return {};
}
// Neighbouring floats of one sign are neighbouring integers.
Status decompose_next(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, y = {b, node.operand(1)};
  const tenon_dtype_t type = x.dtype(), bits = type == TENON_F32 ? TENON_I32 : TENON_I64;
  const auto pattern = [&](Term v, tenon_dtype_t to) {
    return Term{b, b.build("bitcast", {v.v}, {{"dtype", dtype(to)}})};
  };
  const Term p = pattern(x, bits);
  const Term one = p.same(1);
  const Term away =
      compare(x, TENON_CMP_LT, y) ^ compare(x, TENON_CMP_LT, 0);  // grows in magnitude
  const Term step = pattern(where(away, p + one, p - one), type);
  // The smallest number, with the sign of y.
  const Term least = pattern(
      where(compare(y, TENON_CMP_LT, 0),
            one | Term{b, b.splat(b.scalar_int(bits, type == TENON_F32 ? INT32_MIN : INT64_MIN),
                                  x.dims())},
            one),
      type);
  Term z = where(compare(x, TENON_CMP_EQ, 0), least, step);
  z = where(compare(x, TENON_CMP_EQ, y), y, z);
  return b.finish(out, {where(apply("is_nan", x) | apply("is_nan", y), x + y, z)});
}
constexpr OpDraft next_after() {
  OpDraft draft = op("next_after", kComposite);
  draft.summary("The next number after x in the direction of y; y where they are equal.")
      .operand("x", "where it starts", dtype_bit(TENON_F32) | dtype_bit(TENON_F64), 1)
      .operand("y", "the direction, same type as x", dtype_bit(TENON_F32) | dtype_bit(TENON_F64), 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", "next_after(f32[2], f32[3])")
      .example("next_after(f32[2] [1, 1], f32[2] [2, 0]) -> f32[2] [1.0000001, 0.99999994]")
      .infer<infer_next>()
      .reference<reference_next>()
      .no_derivative("it steps to the neighbouring number")
      .decompose<decompose_next>();
  return draft;
}

TENON_OPS(next_after, next_after)

}  // namespace tenon::ops::next_after
