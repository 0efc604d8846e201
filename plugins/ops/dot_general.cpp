// dot_general: the contraction that matmul, linear and attention use.
#include <tenon/abi/host.h>

#include <algorithm>

#include "complex_math.h"
#include "derivative.h"

namespace tenon::ops::dot_general {

Axes joined(std::span<const int64_t> a, std::span<const int64_t> b) {
  Axes out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Status infer(const InferQuery& q) {
  const auto a_batch = q.i64s("a_batch"), b_batch = q.i64s("b_batch");
  const auto a_contract = q.i64s("a_contract"), b_contract = q.i64s("b_contract");
  TENON_TRY(q.require_axes("C1", joined(a_batch, a_contract), q.rank(0)));
  TENON_TRY(q.require_axes("C1", joined(b_batch, b_contract), q.rank(1)));
  TENON_TRY(require_length(q, "C2", "b_batch", b_batch.size(), a_batch.size()));
  TENON_TRY(require_length(q, "C2", "b_contract", b_contract.size(), a_contract.size()));
  const auto pair = [&](int64_t a, int64_t b) {
    return q.require_equal("C3", q.dim(0, static_cast<uint32_t>(a)),
                           q.dim(1, static_cast<uint32_t>(b)),
                           cat("dim ", a, " of a and dim ", b, " of b"));
  };
  for (size_t i = 0; i < a_batch.size(); ++i) TENON_TRY(pair(a_batch[i], b_batch[i]));
  for (size_t i = 0; i < a_contract.size(); ++i) TENON_TRY(pair(a_contract[i], b_contract[i]));
  TENON_TRY(require_sum_types(q, "C4"));
  Dims dims;
  for (int64_t d : a_batch) dims.push_back(q.dim(0, static_cast<uint32_t>(d)));
  for (Dim d : without(q.dims(0), joined(a_batch, a_contract))) dims.push_back(d);
  for (Dim d : without(q.dims(1), joined(b_batch, b_contract))) dims.push_back(d);
  return q.result(q.dtype("dtype") != TENON_DTYPE_NONE ? q.dtype("dtype") : q.dtype(0), dims);
}

// Offsets of all elements along `axes`, row-major.
std::vector<int64_t> offsets(const Array& x, const Axes& axes) {
  const auto strides = strides_of(x.dims());
  Axes dims, steps;
  for (int64_t d : axes) {
    dims.push_back(x.dim(static_cast<size_t>(d)));
    steps.push_back(strides[static_cast<size_t>(d)]);
  }
  std::vector<int64_t> out;
  each_index(dims, [&](const Index& i) { out.push_back(offset_of(i, steps)); });
  return out;
}

// Columns that are summed side by side. Each sum still takes its terms one by one, in order.
constexpr size_t kTogether = 8;

// The product of one pair of matrices by its meaning, row by row on the host's threads. The right
// side is copied so that the columns of a block lie next to each other: a walk down a column of a
// large matrix would miss the cache at every step.
template <class Number>
struct Product {
  std::span<const Number> left, right;
  int64_t a_batch = 0, b_batch = 0;
  const std::vector<int64_t>&a_free, &a_sum, &b_free, &b_sum;
  Number* out;
  std::vector<Number> blocks = {};

  void pack() {
    blocks.assign((b_free.size() + kTogether - 1) / kTogether * kTogether * b_sum.size(), 0);
    for (size_t j = 0; j < b_free.size(); ++j) {
      Number* block = &blocks[j / kTogether * kTogether * b_sum.size() + j % kTogether];
      for (size_t k = 0; k < b_sum.size(); ++k)
        block[k * kTogether] = right[static_cast<size_t>(b_batch + b_free[j] + b_sum[k])];
    }
  }
  void row(size_t i) const {
    std::vector<Number> values(a_sum.size());
    for (size_t k = 0; k < values.size(); ++k)
      values[k] = left[static_cast<size_t>(a_batch + a_free[i] + a_sum[k])];
    for (size_t j = 0; j < b_free.size(); j += kTogether) {
      const Number* block = blocks.data() + j * b_sum.size();
      Number sums[kTogether] = {};
      for (size_t k = 0; k < values.size(); ++k) {
        for (size_t c = 0; c < kTogether; ++c) sums[c] += values[k] * block[k * kTogether + c];
      }
      for (size_t c = 0; c < kTogether && j + c < b_free.size(); ++c)
        out[i * b_free.size() + j + c] = sums[c];
    }
  }
  static tenon_code_t rows(void* self, uint32_t, int64_t begin, int64_t end) {
    return detail::guarded(context().host, [&] {
      for (int64_t i = begin; i < end; ++i)
        static_cast<const Product*>(self)->row(static_cast<size_t>(i));
      return Status();
    });
  }
  Status all() {
    pack();
    const auto rows_count = static_cast<int64_t>(a_free.size());
    const auto* threads = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
    return threads == nullptr ? rows(this, 0, 0, rows_count)
                              : threads->parallel(threads->self, &rows, this, rows_count, 1);
  }
};

Status reference(const Eval& e) {
  const Array a = e.input(0), b = e.input(1), y = e.output();
  const auto a_batch = offsets(a, joined(e.i64s("a_batch"), {})),
             b_batch = offsets(b, joined(e.i64s("b_batch"), {}));
  const auto a_sum = offsets(a, joined(e.i64s("a_contract"), {})),
             b_sum = offsets(b, joined(e.i64s("b_contract"), {}));
  const auto a_free = offsets(a, others(a.rank(), joined(e.i64s("a_batch"), e.i64s("a_contract"))));
  const auto b_free = offsets(b, others(b.rank(), joined(e.i64s("b_batch"), e.i64s("b_contract"))));
  return with_number(a.dtype(), [&]<class Found>(Found) -> Status {
    using Number =
        std::conditional_t<std::is_same_v<Found, double>, double, uint64_t>;  // integers wrap
    const auto left = a.read<Number>(), right = b.read<Number>();
    std::vector<Number> out(static_cast<size_t>(y.count()));
    for (size_t n = 0; n < a_batch.size() && !out.empty(); ++n) {
      if (e.cancelled()) return TENON_CANCELLED;
      Product<Number> product = {
          left,       right,  a_batch[n],
          b_batch[n], a_free, a_sum,
          b_free,     b_sum,  out.data() + n * a_free.size() * b_free.size()};
      TENON_TRY(product.all());
    }
    y.write(out);
    return {};
  });
}

// Four products of parts. `acc` is the type of their sums.
Status decompose_complex(Builder& b, const Node& node, tenon_value_t* out) {
  const Complex x = parts_of(b, node.operand(0)), y = parts_of(b, node.operand(1));
  const Axes a_batch = node.i64s("a_batch"), b_batch = node.i64s("b_batch"),
             a_contract = node.i64s("a_contract"), b_contract = node.i64s("b_contract");
  const tenon_dtype_t given = node.dtype("acc");
  const DType acc = dtype(is_complex(given) ? part_of(given) : given);
  const auto times = [&](const Term& left, const Term& right) -> Term {
    return {b, b.build("dot_general", {left, right},
                       {{"a_batch", a_batch},
                        {"b_batch", b_batch},
                        {"a_contract", a_contract},
                        {"b_contract", b_contract},
                        {"acc", acc}})};
  };
  return b.finish(out, {ops::joined(b, {times(x.re, y.re) - times(x.im, y.im),
                                        times(x.re, y.im) + times(x.im, y.re)})});
}

// The places of the dims of one side in the result: batch dims, then the others.
struct Side {
  Axes batch, contract, free;
  Side(const Node& node, std::string_view side, uint32_t operand)
      : batch(node.i64s(cat(side, "_batch"))), contract(node.i64s(cat(side, "_contract"))) {
    Axes both = batch;
    both.insert(both.end(), contract.begin(), contract.end());
    free = others(node.operand(operand).rank(), both);
  }
};
// A product of the cotangent and the conjugate of the other side over that side's free dims, whose
// dims are then put in order.
Value transpose(Builder& b, const Node& node, uint32_t operand, std::span<const Value> cotangents) {
  const Side a(node, "a", 0), c(node, "b", 1);
  const Side &own = operand == 0 ? a : c, &other = operand == 0 ? c : a;
  const Value x = node.operand(operand), y = conjugate(b, node.operand(1 - operand));
  const Value g = b.convert(cotangents[0], x.dtype());
  const auto batches = static_cast<int64_t>(own.batch.size());
  const auto left = static_cast<int64_t>(a.free.size());
  const int64_t begin = batches + (operand == 0 ? left : 0);
  const Axes summed = range(begin, begin + static_cast<int64_t>(other.free.size()));
  const Value product = b.build("dot_general", {g, y},
                                {{"a_batch", range(0, batches)},
                                 {"b_batch", other.batch},
                                 {"a_contract", summed},
                                 {"b_contract", other.free},
                                 {"acc", dtype(node.dtype("acc"))}});
  // The product has batch dims, own free dims, and the other side's contracted dims in its order.
  Axes order = own.batch;
  order.insert(order.end(), own.free.begin(), own.free.end());
  Axes theirs = other.contract;
  std::sort(theirs.begin(), theirs.end());
  for (const int64_t dim : theirs) {
    const auto at = std::find(other.contract.begin(), other.contract.end(), dim);
    order.push_back(own.contract[static_cast<size_t>(at - other.contract.begin())]);
  }
  return permute(b, product, inverse_of(order));
}

// A new dim of both sides is a batch dim; of one side alone it is free, if there are no batch dims,
// so that the product grows and does not repeat.
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t> is_batched, Dim size) {
  const bool both = is_batched[0] != 0 && is_batched[1] != 0;
  const bool free = !both && node.i64s("a_batch").empty();
  const auto dims = [&](std::string_view side, std::string_view which, uint32_t operand) {
    const Axes list = node.i64s(cat(side, "_", which));
    Axes out = is_batched[operand] != 0 || !free ? shifted(list) : list;
    if (which == "batch" && !free) out.insert(out.begin(), 0);
    return out;
  };
  std::vector<Value> sides;
  for (uint32_t i = 0; i < 2; ++i)
    sides.push_back(free ? operands[i] : repeated(b, operands[i], is_batched[i] != 0, size));
  const Value y = b.build("dot_general", sides,
                          {{"a_batch", dims("a", "batch", 0)},
                           {"b_batch", dims("b", "batch", 1)},
                           {"a_contract", dims("a", "contract", 0)},
                           {"b_contract", dims("b", "contract", 1)},
                           {"acc", dtype(node.dtype("acc"))},
                           {"dtype", dtype(node.dtype("dtype"))}});
  if (!free || is_batched[0] != 0) return {y};
  // The new dim follows the free dims of a.
  const auto at = static_cast<int64_t>(Side(node, "a", 0).free.size());
  Axes perm = {at};
  for (const int64_t dim : others(node.result().rank() + 1, perm)) perm.push_back(dim);
  return {permute(b, y, perm)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("dot_general", kPrimitive);
  draft.alias("gemm").alias("mm");
  draft.summary("Sums of products over contracted dims, for each index of the batch dims.")
      .doc(
          "The result has the batch dims, the other dims of a, the other dims of b, each in order.")
      .operand("a", "the left side", kNumber | kComplex, 1)
      .operand("b", "the right side, same element type as a", kNumber | kComplex, 1)
      .result("y", "element type dtype, or that of a")
      .attr_i64s("a_batch", "dims of a that go along with b_batch")
      .attr_i64s("b_batch", "dims of b that go along with a_batch")
      .attr_i64s("a_contract", "dims of a that are summed over with b_contract")
      .attr_i64s("b_contract", "dims of b that are summed over with a_contract")
      .attr_dtype("acc",
                  "the type sums are kept in, or one that holds more; none: f32 for f16 and bf16, "
                  "i32 for 8 and 16 bit "
                  "integers, else as a")
      .attr_dtype("dtype", "the element type of the result; none: as a")
      .constraint("C1", "the batch and contracted dims of each side are distinct dims of it",
                  "dot_general(f32[2, 3], f32[3, 2]) {a_contract = [2], b_contract = [0]}")
      .constraint("C2", "both sides have as many batch and as many contracted dims",
                  "dot_general(f32[2, 3], f32[3, 2]) {a_contract = [1], b_contract = []}")
      .constraint("C3", "dims that go together are equal",
                  "dot_general(f32[2, 3], f32[4, 2]) {a_contract = [1], b_contract = [0]}")
      .constraint("C4", "acc and dtype are floats for floats, integers for integers",
                  "dot_general(f32[3], f32[3]) {a_contract = [0], b_contract = [0], dtype = i32}")
      .example(
          "dot_general(f32[2, 2] [[1, 2], [3, 4]], f32[2, 1] [[5], [6]]) {a_contract = [1], "
          "b_contract = [0]} -> "
          "f32[2, 1] [[17], [39]]")
      .example(
          "dot_general(i8[2] [100, 100], i8[2] [100, 100]) {a_contract = [0], b_contract = [0], "
          "dtype = i32} -> "
          "i32[] 20000")
      .infer<infer>()
      .reference<reference>()
      .decompose_complex<decompose_complex>()
      .bilinear({0, 1})
      .transposed<transpose>()
      .batch<batch>()
      .cost(TENON_COST_CONTRACTION)
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .tolerance(4);
  return draft;
}

TENON_OPS(dot_general, declare)

}  // namespace tenon::ops::dot_general
