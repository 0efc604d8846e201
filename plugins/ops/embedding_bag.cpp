// embedding_bag: rows of a table, reduced in bags.
#include "compose.h"

namespace tenon::ops::embedding_bag {

Status infer_bag(const InferQuery& q) {
  return q.result(q.dtype(0), {q.dim(2, 0), q.dim(0, 1)});
}
Status reference_bag(const Eval& e) {
  const Array table = e.input(0), indices = e.input(1), offsets = e.input(2), y = e.output();
  const std::string_view kind = e.text("kind");
  for (int64_t bag = 0; bag < y.dim(0); ++bag) {
    for (int64_t d = 0; d < y.dim(1); ++d) {
      double sum = 0;
      int64_t count = 0;
      for (int64_t t = 0; t < indices.dim(0); ++t) {
        int64_t own = -1;  // the last bag that begins at or before t
        for (int64_t k = 0; k < offsets.dim(0); ++k)
          own += static_cast<int64_t>(load_int(offsets.dtype(), offsets.at({&k, 1})) <= t);
        if (own != bag) continue;
        const int64_t row = std::clamp<int64_t>(load_int(indices.dtype(), indices.at({&t, 1})), 0,
                                                table.dim(0) - 1);
        const double v = load_double(table.dtype(), table.at(Index{row, d}));
        sum = kind != "max" ? sum + v : count == 0 ? v : max_of(sum, v);
        ++count;
      }
      store_double(y.dtype(), y.at(Index{bag, d}),
                   kind == "mean" ? sum / std::max<double>(1, static_cast<double>(count)) : sum);
    }
  }
  return {};
}
Status decompose_bag(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  const Term table = {b, widen(b, node.operand(0))}, indices = {b, node.operand(1)},
             offsets = as({b, node.operand(2)}, TENON_I64);
  const std::string kind = node.text("kind");
  const Dims result = node.result().dims();
  const Term rows = take(table, indices, 0);
  const Term at = iota(b, {indices.dim(0)}, 0);
  const Term bag = Term{b, b.build("searchsorted", {offsets.v, at.v}, {{"right", 1}})} - 1;
  const auto gathered = [&](Term start, Term updates, std::string_view how) {
    const Axes window = range(1, updates.rank());
    return Term{
        b,
        b.build(
            "scatter", {start.v, bag.v, updates.v},
            {{"kind", how}, {"inserted_dims", {0}}, {"index_map", {0}}, {"window_dims", window}})};
  };
  const auto filled = [&](double v, const Dims& dims) {
    return Term{b, b.full(table.dtype(), dims, v)};
  };
  const Term ones = filled(1, {indices.dim(0)});
  const Term counts = broadcast(gathered(filled(0, {result[0]}), ones, "add"), result, {0});
  Term y;
  if (kind == "max") {
    y = gathered(filled(-std::numeric_limits<double>::infinity(), result), rows, "max");
    y = where(compare(counts, TENON_CMP_EQ, 0), 0, y);
  } else {
    y = gathered(filled(0, result), rows, "add");
    if (kind == "mean") y = y / max(counts, 1);
  }
  return b.finish(out, {as(y, type)});
}

constexpr OpDraft embedding_bag() {
  OpDraft draft = op("embedding_bag", kComposite);
  draft.summary("Rows of a table, put together in bags.")
      .doc(
          "Bag i holds the indices from offsets[i] up to offsets[i + 1]; what lies before the "
          "first offset is in no bag. An empty bag gives 0. Indices out of range take the nearest "
          "row.")
      .operand("table", "[rows, features]", kFloat, 0, 2, 2)
      .operand("indices", "which rows", kIndex, 0, 1, 1)
      .operand("offsets", "where each bag begins, increasing", kIndex, 0, 1, 1)
      .result("y", "[bags, features]")
      .attr_string("kind", "how rows are put together", "sum", "sum|mean|max")
      .example(
          "embedding_bag(f32[3, 1] [[1], [2], [4]], i64[3] [0, 2, 1], i64[2] [0, 2]) -> f32[2, 1] "
          "[[5], [2]]")
      .infer<infer_bag>()
      .reference<reference_bag>()
      .decompose<decompose_bag>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .tolerance(4);
  return draft;
}

TENON_OPS(embedding_bag, embedding_bag)

}  // namespace tenon::ops::embedding_bag
