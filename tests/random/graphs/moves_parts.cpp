// Ops that join computed operands: fusion lets the producers store directly into their part of the
// result.
#include "tests/random/graphs/fusion_moves.h"

namespace tenon::random_tests {
namespace {

// A value of these dims of which each element depends on several, so that it is not computed again
// by its consumers.
Known computed(GraphMaker& make, tenon_dtype_t dtype, const Dims& dims) {
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  if (make.chance(3))
    return make.build("cumsum", {make.like(dtype, dims)}, {{"dim", make.below(last + 1)}});
  if (make.chance(2))
    return make.build("softmax", {make.like(dtype, dims)}, {{"dim", make.below(last + 1)}});
  Dims left = dims;
  left.back() = make.any_extent();
  const Known a = make.like(dtype, left), b = make.like(dtype, {left.back(), dims.back()});
  return make.build("dot_general", {a, b},
                    {{"a_batch", make.keep({})},
                     {"b_batch", make.keep({})},
                     {"a_contract", make.keep({last})},
                     {"b_contract", make.keep({0})}});
}

void multiply(GraphMaker& make, const Known& x) {
  const auto last = static_cast<int64_t>(x.rank()) - 1;
  make.build("dot_general", {x, make.like(x.dtype, {x.dims.back(), make.any_extent()})},
             {{"a_batch", make.keep({})},
              {"b_batch", make.keep({})},
              {"a_contract", make.keep({last})},
              {"b_contract", make.keep({0})}});
}

// Reads all of x, before or after other nodes store next to it or over it.
void read(GraphMaker& make, const Known& x) {
  const auto last = static_cast<int64_t>(x.rank()) - 1;
  switch (make.below(4)) {
    case 0:
      make.build("reduce_max", {x}, {{"dims", make.keep({make.below(last + 1)})}});
      return;
    case 1:
      make.build("softmax", {x}, {{"dim", last}});
      return;
    case 2:
      unary_of(make, x);
      return;
    default:
      multiply(make, x);
  }
}

Dims smaller(GraphMaker& make, const Dims& dims) {
  Dims out;
  for (const Dim d : dims)
    out.push_back(d.is_constant() && make.chance(2) ? make.dim(1 + make.below(d.constant())) : d);
  return out;
}

Known updated(GraphMaker& make, const Known& x) {
  const Known update = computed(make, x.dtype, smaller(make, x.dims));
  const Known starts = make.like(TENON_I64, {make.dim(static_cast<int64_t>(x.rank()))});
  // A product leaves x in memory; other consumers would be computed with it.
  if (make.chance(2)) multiply(make, x);
  return update.valid() ? make.build("dynamic_update_slice", {x, update, starts}) : Known();
}

Known joined(GraphMaker& make, Known x) {
  const int64_t dim = make.below(static_cast<int64_t>(x.rank()));
  Dims other = x.dims;
  if (make.chance(2)) {
    const Dims start(x.rank(), make.dim(0));
    const Known part =
        make.build("slice", {x}, {{"start", start}, {"limit", smaller(make, x.dims)}});
    if (!part.valid()) return {};
    x = make.chance(2) ? unary_of(make, part) : part;
    if (!x.valid()) return {};
    other = x.dims;
  }
  other[static_cast<size_t>(dim)] = make.any_extent();
  std::vector<Known> parts = {x, computed(make, x.dtype, other)};
  if (!parts[1].valid()) return {};
  if (make.chance(2)) std::swap(parts[0], parts[1]);
  return make.build("concat", parts, {{"dim", dim}});
}

Known padded(GraphMaker& make, const Known& x) {
  std::vector<int64_t> low, high, interior(x.rank(), 0);
  for (size_t d = 0; d < x.rank(); ++d) {
    low.push_back(make.chance(2) ? 0 : make.below(3));
    high.push_back(make.chance(2) ? 0 : make.below(3));
  }
  return make.build(
      "pad", {x, make.scalar(x.dtype)},
      {{"low", make.keep(low)}, {"high", make.keep(high)}, {"interior", make.keep(interior)}});
}

}  // namespace

void parts(GraphMaker& make) {
  const Known x = computed(make, make.chance(4) ? TENON_F64 : TENON_F32, make.any_shape(1, 3));
  if (!x.valid()) return;
  if (make.chance(3)) read(make, x);
  const int64_t kind = make.below(3);
  const Known y = kind == 0 ? updated(make, x) : kind == 1 ? joined(make, x) : padded(make, x);
  if (make.chance(3)) read(make, x);
  if (y.valid() && make.chance(3)) read(make, y);
}

}  // namespace tenon::random_tests
