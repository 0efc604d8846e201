#include <algorithm>

#include "tests/random/graphs/fusion_moves.h"

namespace tenon::random_tests {
namespace {

using Names = std::vector<const char*>;

const Names& reductions_of(const Known& x) {
  static const Names kFloats = {"reduce_sum", "reduce_sum", "reduce_max", "reduce_max",
                                "reduce_min", "mean",       "mean",       "reduce_prod"};
  static const Names kIntegers = {"reduce_sum",  "reduce_max", "reduce_min",
                                  "reduce_prod", "reduce_and", "reduce_or"};
  static const Names kPredicates = {"reduce_and", "reduce_or", "reduce_max", "reduce_min"};
  return x.dtype == TENON_PRED ? kPredicates : is_int(x.dtype) ? kIntegers : kFloats;
}

std::vector<int64_t> any_axes(GraphMaker& make, size_t rank) {
  if (make.chance(5)) {
    std::vector<int64_t> all;
    for (size_t d = 0; d < rank; ++d) all.push_back(static_cast<int64_t>(d));
    return all;
  }
  if (make.chance(2)) return {make.below(static_cast<int64_t>(rank))};
  return make.some_of(rank);
}

// The reduced value without the axes, or with extents of 1.
Known reduced(GraphMaker& make, const Known& x, const std::vector<int64_t>& axes) {
  const Known y = make.build(make.pick(reductions_of(x)), {x}, {{"dims", make.keep(axes)}});
  if (!y.valid() || !make.chance(3)) return y;
  Dims kept = x.dims;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = make.dim(1);
  return make.build("reshape", {y}, {{"shape", kept}});
}

// Positions in `whole`, in order, that match the dims of `part`: the last, the first or any others.
bool place(GraphMaker& make, const Dims& part, const Dims& whole, std::vector<int64_t>* places) {
  for (int tries = 0; tries < 8; ++tries) {
    places->clear();
    size_t i = 0;
    for (size_t d = 0; d < whole.size() && i < part.size(); ++d) {
      const bool needed = whole.size() - d == part.size() - i;
      if ((part[i] == whole[d] || part[i].is(1)) && (needed || make.chance(2))) {
        places->push_back(static_cast<int64_t>(d));
        ++i;
      }
    }
    if (i == part.size()) return true;
  }
  return false;
}

// What often follows a product and is computed with it: a bias, a function, an addition.
void epilogue(GraphMaker& make, Known y) {
  for (int64_t i = make.below(3); i > 0 && y.valid(); --i) {
    if (make.chance(2)) {
      y = unary_of(make, y);
      continue;
    }
    const Dims tail =
        y.rank() == 0 || make.chance(2) ? y.dims : Dims(y.dims.end() - 1, y.dims.end());
    const auto [left, right] = join(make, y, make.like(y.dtype, tail));
    y = binary_of(make, left, right);
  }
}

Attr axis(GraphMaker& make, const Known& x) {
  return {"dim", make.below(static_cast<int64_t>(x.rank()))};
}

}  // namespace

void reduce(GraphMaker& make) {
  const Known x = make.take(kNumber | kPred, 1);
  reduced(make, x, any_axes(make, x.rank()));
}

void reduce_and_back(GraphMaker& make) {
  const Known x = make.take(kFloat | dtype_bit(TENON_I32), 1);
  Known y = reduced(make, x, any_axes(make, x.rank()));
  if (y.valid() && make.chance(3)) y = unary_of(make, y);
  if (!y.valid()) return;
  const Known other = make.chance(2) ? x : make.take(dtype_bit(y.dtype), 1);
  std::vector<int64_t> places;
  if (!place(make, y.dims, other.dims, &places)) return;
  const Known wide = spread(make, y, other.dims, std::move(places));
  if (!wide.valid()) return;
  const Known z = make.chance(2) ? binary_of(make, other, wide) : binary_of(make, wide, other);
  if (z.valid() && make.chance(2)) reduced(make, z, any_axes(make, z.rank()));
}

void softmax(GraphMaker& make) {
  const Known x = make.take(kFloat, 1);
  if (make.chance(4)) {
    make.build("logsumexp", {x}, {{"dims", make.keep(any_axes(make, x.rank()))}});
  } else {
    make.build(make.chance(2) ? "softmax" : "log_softmax", {x}, {axis(make, x)});
  }
}

void running(GraphMaker& make) {
  static const Names kOps = {"cumsum", "cumsum", "cummax", "cummin", "cumprod"};
  const Known x = make.take(kNumber, 1);
  make.build(make.pick(kOps), {x},
             {axis(make, x), {"reverse", make.below(2)}, {"exclusive", make.chance(4) ? 1 : 0}});
}

void norm(GraphMaker& make) {
  const Known x = make.take(kFloat, 1);
  const int64_t dim = make.below(static_cast<int64_t>(x.rank()));
  const Dims tail(x.dims.begin() + dim, x.dims.end());
  switch (make.below(4)) {
    case 0: {
      std::vector<Known> operands = {x, make.like(x.dtype, tail)};
      if (make.chance(2)) operands.push_back(make.like(x.dtype, tail));
      make.build("layer_norm", operands, {{"dim", dim}, {"epsilon", 0.1}});
      return;
    }
    case 1:
      make.build("rms_norm", {x, make.like(x.dtype, tail)}, {{"dim", dim}, {"epsilon", 0.1}});
      return;
    case 2:
      make.build(make.chance(2) ? "var" : "std", {x},
                 {{"dims", make.keep(any_axes(make, x.rank()))}});
      return;
    default:
      make.build(make.chance(2) ? "norm" : "l2_normalize", {x},
                 {{"dims", make.keep(any_axes(make, x.rank()))}});
  }
}

void order(GraphMaker& make) {
  const Known x = make.take(kNumber, 1);
  const Attr dim = axis(make, x);
  const DType index = dtype(make.chance(2) ? TENON_I64 : TENON_I32);
  if (make.chance(4)) {
    make.build("sort", {x}, {dim});
  } else {
    make.build(make.chance(2) ? "argmax" : "argmin", {x},
               {dim, {"index_dtype", index}, {"last_index", make.below(2)}});
  }
}

void product(GraphMaker& make) {
  const Known a = make.take(kFloat | dtype_bit(TENON_I32) | dtype_bit(TENON_I8), 1, 4);
  const Known b = make.take(dtype_bit(a.dtype), 1, 4);
  std::vector<int64_t> a_batch, b_batch, a_contract, b_contract;
  for (size_t i = 0; i < a.rank(); ++i) {
    for (size_t j = 0; j < b.rank(); ++j) {
      const auto left = static_cast<int64_t>(i), right = static_cast<int64_t>(j);
      const auto taken = [&](const std::vector<int64_t>& list, int64_t d) {
        return std::ranges::count(list, d) != 0;
      };
      if (!(a.dims[i] == b.dims[j]) || make.chance(3)) continue;
      if (taken(a_batch, left) || taken(a_contract, left) || taken(b_batch, right) ||
          taken(b_contract, right))
        continue;
      const bool contract = a_contract.empty() || make.chance(3);
      (contract ? a_contract : a_batch).push_back(left);
      (contract ? b_contract : b_batch).push_back(right);
    }
  }
  Known y = make.build("dot_general", {a, b},
                       {{"a_batch", make.keep(a_batch)},
                        {"b_batch", make.keep(b_batch)},
                        {"a_contract", make.keep(a_contract)},
                        {"b_contract", make.keep(b_contract)}});
  epilogue(make, y);
}

void few_bits(GraphMaker& make) {
  static const std::vector<int64_t> kSteps = {16, 32, 32, 48, 64}, kRows = {1, 1, 1, 2, 2, 3, 7};
  const int64_t steps = make.pick(kSteps), bits = make.chance(2) ? 4 : 8,
                group = make.chance(3)   ? steps
                        : make.chance(3) ? 8
                                         : 16,
                columns = 1 + make.below(36);
  const Dims shape = {make.chance(3) ? make.any_extent() : make.dim(make.pick(kRows)),
                      make.dim(steps)};
  if (!make.fits(shape)) return;
  Known x = make.like(TENON_F32, shape);
  if (make.chance(3)) x = unary_of(make, x);
  std::vector<Known> operands = {x, make.constant(TENON_U8, {columns, steps * bits / 8}),
                                 make.constant(x.dtype, {columns, steps / group})};
  if (make.chance(2)) operands.push_back(make.constant(TENON_U8, {columns, steps / group}));
  epilogue(make, make.build("matmul_nbits", operands, {{"bits", bits}, {"group", group}}));
}

void window(GraphMaker& make) {
  static const Names kKinds = {"sum", "max", "min"};
  const Known x =
      make.take(dtype_bit(TENON_F32) | dtype_bit(TENON_F64) | dtype_bit(TENON_I32), 2, 4);
  std::vector<int64_t> ones, window, low;
  for (size_t d = 0; d < x.rank(); ++d) {
    window.push_back(
        x.dims[d].is_constant() ? 1 + make.below(std::min<int64_t>(x.dims[d].constant(), 2)) : 1);
    low.push_back(make.chance(3) ? make.below(window.back()) : 0);
    ones.push_back(make.chance(4) ? 2 : 1);
  }
  if (make.chance(2) || !is_float(x.dtype)) {
    make.build("reduce_window", {x},
               {{"kind", make.pick(kKinds)},
                {"window", make.keep(window)},
                {"strides", make.keep(ones)},
                {"pad_low", make.keep(low)},
                {"pad_high", make.keep(low)}});
    return;
  }
  // Depthwise: a filter for each channel.
  const bool depthwise = x.dims[1].is_constant() && make.chance(3);
  Dims weights = {depthwise ? x.dims[1] : make.dim(1 + make.below(3)),
                  depthwise ? make.dim(1) : x.dims[1]};
  std::vector<int64_t> strides, pads;
  for (size_t d = 2; d < x.rank(); ++d) {
    weights.push_back(make.dim(window[d]));
    strides.push_back(ones[d]);
    pads.push_back(low[d]);
  }
  epilogue(make, make.build("conv", {x, make.like(x.dtype, weights)},
                            {{"strides", make.keep(strides)},
                             {"pad_low", make.keep(pads)},
                             {"pad_high", make.keep(pads)},
                             {"groups", depthwise ? x.dims[1].constant() : int64_t{1}}}));
}

void counted(GraphMaker& make) {
  const Dims shape = make.any_shape(1, 3);
  make.build("iota", {},
             {{"shape", shape},
              {"dim", make.below(static_cast<int64_t>(shape.size()))},
              {"dtype", DType{make.any_dtype(kNumber)}}});
}

}  // namespace tenon::random_tests
