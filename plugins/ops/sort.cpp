// sort: orders slices by keys and moves other operands along. Also top_k, the first part of a sort.
#include "compose.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::sort_op {

Status infer(const InferQuery& q) {
  if (q.operand_count() == 0) return q.fail("C1", "there is no operand");
  TENON_TRY(require_dim(q, "C2", q.i64("dim"), q.rank(0)));
  const int64_t keys = q.i64("keys");
  if (keys < 1 || keys > q.operand_count()) return q.fail("C1", cat("keys is ", keys));
  const auto descending = q.i64s("descending");
  if (!descending.empty())
    TENON_TRY(require_length(q, "C3", "descending", descending.size(), static_cast<size_t>(keys)));
  for (const int64_t d : descending) {
    if (d != 0 && d != 1) return q.fail("C3", cat("descending has ", d));
  }
  for (uint32_t i = 0; i < q.operand_count(); ++i) {
    if (i < keys && !is_in(q.dtype(i), kNumber | kPred))
      return q.fail("C4", cat("key ", i, " has element type ", dtype_name(q.dtype(i))));
    TENON_TRY(q.require_same_shape("C5", 0, i));
  }
  for (uint32_t i = 0; i < q.operand_count(); ++i) TENON_TRY(q.result(q.dtype(i), q.dims(i)));
  return {};
}

// -1, 0 or 1: NaN is above all numbers, -0 and +0 are equal.
template <class Number>
int order(Number a, Number b) {
  if constexpr (std::is_same_v<Number, double>) {
    if (std::isnan(a) || std::isnan(b))
      return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  }
  return a < b ? -1 : static_cast<int>(b < a);
}

Status reference(const Eval& e) {
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const auto keys = static_cast<uint32_t>(e.i64("keys"));
  const Axes descending = e.i64s_or("descending", keys, 0);
  const Array x = e.input(0);
  Axes lines(x.dims().begin(), x.dims().end());
  const int64_t length = lines[dim];
  lines[dim] = 1;
  if (length == 0) return {};
  Axes at(static_cast<size_t>(length));
  each_index(lines, [&](const Index& line) {
    for (int64_t k = 0; k < length; ++k) at[static_cast<size_t>(k)] = k;
    const auto place = [&](int64_t k) {
      Index i = line;
      i[dim] = k;
      return i;
    };
    std::sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
      for (uint32_t k = 0; k < keys; ++k) {
        const Array key = e.input(k);
        const std::byte *pa = key.at(place(a)), *pb = key.at(place(b));
        int found = 0;
        if (is_float(key.dtype())) {
          found = order(load_double(key.dtype(), pa), load_double(key.dtype(), pb));
        } else if (is_in(key.dtype(), kUnsigned)) {
          found = order(static_cast<uint64_t>(load_int(key.dtype(), pa)),
                        static_cast<uint64_t>(load_int(key.dtype(), pb)));
        } else {
          found = order(load_int(key.dtype(), pa), load_int(key.dtype(), pb));
        }
        if (found != 0) return descending[k] != 0 ? found > 0 : found < 0;
      }
      return a < b;  // equal ones keep their order
    });
    for (uint32_t i = 0; i < e.input_count(); ++i) {
      for (int64_t k = 0; k < length; ++k)
        e.output(i).copy_from(place(k), e.input(i), place(at[static_cast<size_t>(k)]));
    }
  });
  return {};
}

// Where the elements of the results were: what an operand of indices shows, else a sort that moves
// indices along.
Value order_of(Builder& b, const Node& node) {
  const int64_t dim = node.i64("dim");
  std::vector<Value> operands = node.operands();
  for (auto i = static_cast<uint32_t>(node.i64("keys")); i < operands.size(); ++i) {
    const Node made = operands[i].node();
    if (made && made.is("iota") && made.i64("dim") == dim && is_in(operands[i].dtype(), kIndex))
      return node.result(i);
  }
  operands.push_back(iota(b, operands[0].dims(), dim));
  const Axes descending = node.i64s("descending");
  const std::vector<Attr> attrs = {Attr("dim", dim), Attr("keys", node.i64("keys")),
                                   Attr("descending", descending)};
  return b.build_node("sort", operands, attrs).result(node.operand_count());
}
// Tangents move as the elements do.
std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value order = order_of(b, node);
  std::vector<Value> out;
  for (const Value t : tangents) {
    out.push_back(t.valid() ? b.build("take_along", {t, order},
                                      {{"dim", node.i64("dim")}, {"mode", "in_bounds"}})
                            : Value());
  }
  return out;
}

constexpr OpDraft sort() {
  OpDraft draft = op("sort", kPrimitive);
  draft.summary("Lines along a dim put in order by the first operands; the others move with them.")
      .doc(
          "Keys are compared one after another. NaN is above all numbers (last, or first where "
          "descending), -0 and +0 are equal. Elements whose keys are equal keep their order, "
          "descending or not.")
      .variadic("operands", "keys, then what belongs to them", kWhole, 0, 1)
      .result("sorted", "as many as operands, types as theirs")
      .attr_i64("dim", "the dim along which lines run", 0)
      .role(TENON_ROLE_AXIS)
      .attr_i64("keys", "how many operands are keys", 1)
      .attr_i64s("descending", "per key, 1: the largest first; empty: 0")
      .constraint("C1", "there are between 1 and all operands of keys", "sort(f32[2]) {keys = 2}")
      .constraint("C2", "dim is a dim of the operands", "sort(f32[2]) {dim = 1}")
      .constraint("C3", "descending has one entry per key, 0 or 1",
                  "sort(f32[2]) {descending = [0, 1]}")
      .constraint("C4", "keys are numbers or pred", "sort(f8e5m2[2])")
      .constraint("C5", "operands have equal shapes", "sort(f32[2], i64[3])")
      .example("sort(f32[4] [3, nan, -1, 2]) -> f32[4] [-1, 2, 3, nan]")
      .example(
          "sort(i32[2, 3] [[3, 1, 3], [0, 5, 9]], i32[2, 3] [[0, 1, 2], [3, 4, 5]]) {dim = 1, "
          "descending = [1]} -> i32[2, 3] [[3, 3, 1], [9, 5, 0]], i32[2, 3] [[0, 2, 1], [5, 4, 3]]")
      .infer<infer>()
      .reference<reference>()
      .jvp<jvp>()
      .batched({0})
      .cost(TENON_COST_SORT);
  return draft;
}

Status infer_top(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  const Dims k = q.dims("k");
  TENON_TRY(require_length(q, "C2", "k", k.size(), 1));
  TENON_TRY(q.require("C3", TENON_REL_LE, k[0], q.dim(0, static_cast<uint32_t>(dim)),
                      "k and the extent of dim"));
  if (!is_in(q.dtype("index_dtype"), kIndex))
    return q.fail("C4", cat("index_dtype is ", dtype_name(q.dtype("index_dtype"))));
  Dims dims = q.dims(0);
  dims[static_cast<size_t>(dim)] = k[0];
  TENON_TRY(q.result(q.dtype(0), dims));
  return q.result(q.dtype("index_dtype"), dims);
}
Status decompose_top(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const int64_t dim = node.i64("dim");
  const Dim k = node.dims("k")[0];
  const Term index = iota(b, x.dims(), dim, node.dtype("index_dtype"));
  const std::vector<Value> operands = {x, index};
  const Axes descending = {node.i64("largest") != 0 ? 1 : 0};
  const std::vector<Attr> attrs = {Attr("dim", dim), Attr("descending", descending)};
  const Node sorted = b.build_node("sort", operands, attrs);
  const auto part = [&](uint32_t i) { return cut({b, sorted.result(i)}, dim, b.dim(0), k); };
  return b.finish(out, {part(0), part(1)});
}
// Tangents go where their elements go.
std::vector<Value> jvp_top(Builder& b, const Node& node, std::span<const Value> tangents) {
  return {b.build("take_along", {tangents[0], node.result(1)},
                  {{"dim", node.i64("dim")}, {"mode", "in_bounds"}}),
          Value()};
}
// Finds the k best by repeated search, without sorting.
Status reference_top(const Eval& e) {
  const Array x = e.input(0), values = e.output(0), index = e.output(1);
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const bool largest = e.i64("largest") != 0;
  Axes lines(x.dims().begin(), x.dims().end());
  const int64_t length = lines[dim];
  lines[dim] = 1;
  return with_number(x.dtype(), [&]<class Number>(Number) -> Status {
    each_index(lines, [&](Index i) {
      std::vector<Number> line;
      for (i[dim] = 0; i[dim] < length; ++i[dim]) {
        if constexpr (std::is_same_v<Number, double>) {
          line.push_back(load_double(x.dtype(), x.at(i)));
        } else {
          line.push_back(static_cast<Number>(load_int(x.dtype(), x.at(i))));
        }
      }
      std::vector<bool> used(line.size(), false);
      for (int64_t k = 0; k < values.dim(dim); ++k) {
        size_t best = line.size();
        for (size_t c = 0; c < line.size(); ++c) {
          if (used[c]) continue;
          const int found = best == line.size() ? 1 : order(line[c], line[best]);
          if (best == line.size() || (largest ? found > 0 : found < 0)) best = c;
        }
        used[best] = true;
        Index to = i, from = i;
        to[dim] = k;
        from[dim] = static_cast<int64_t>(best);
        values.copy_from(to, x, from);
        store_int(index.dtype(), index.at(to), static_cast<int64_t>(best));
      }
    });
    return {};
  });
}

constexpr OpDraft top_k() {
  OpDraft draft = op("top_k", kComposite);
  draft.summary("The k largest or smallest elements along a dim, in order, and where they are.")
      .doc("Order as in sort: NaN is largest, of equal elements the first comes first.")
      .operand("x", "the input", kNumber, 0, 1)
      .result("values", "element type of x, dim is k")
      .result("indices", "index_dtype, dims of values")
      .attr_dims("k", "how many, one entry")
      .required()
      .attr_i64("dim", "the dim that is searched", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .attr(flag("largest", "1: the largest, 0: the smallest", 1))
      .attr_dtype("index_dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "dim is a dim of x", "top_k(f32[2]) {k = [1], dim = 1}")
      .constraint("C2", "k has one entry", "top_k(f32[2]) {k = [1, 1]}")
      .constraint("C3", "k is no more than the extent of dim", "top_k(f32[2]) {k = [3]}")
      .constraint("C4", "index_dtype is i32 or i64", "top_k(f32[2]) {k = [1], index_dtype = f32}")
      .example("top_k(f32[4] [3, 9, 1, 9]) {k = [3]} -> f32[3] [9, 9, 3], i64[3] [1, 3, 0]")
      .example(
          "top_k(f32[3] [3, nan, 1]) {k = [2], largest = 0, index_dtype = i32} -> f32[2] [1, 3], "
          "i32[2] [2, 0]")
      .infer<infer_top>()
      .reference<reference_top>()
      .decompose<decompose_top>()
      .jvp<jvp_top>()
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(sort, sort, top_k)

}  // namespace tenon::ops::sort_op
