// einsum: sums of products over dims named by letters.
#include <map>

#include "compose.h"
#include "linalg.h"

namespace tenon::ops::einsum_op {

using Labels = std::vector<int>;  // letters; -1, -2...: dims of the ellipsis, from the right

struct Equation {
  std::vector<Labels> operands;
  Labels result;
  std::string problem;  // empty if well-formed
};

// Reads one operand's labels, or the result's with `rank` < 0, whose ellipsis has `broad` dims.
bool read_term(std::string_view text, int64_t rank, int64_t broad, Labels* out,
               std::string* problem) {
  int64_t letters = 0;
  for (char c : text) letters += static_cast<int64_t>(c != '.' && c != ' ');
  const size_t dots = text.find("...");
  const int64_t hidden = dots == std::string_view::npos ? 0 : rank < 0 ? broad : rank - letters;
  if (hidden < 0 || (rank >= 0 && dots == std::string_view::npos && letters != rank)) {
    *problem = cat("'", text, "' names ", letters, " dims of an operand of rank ", rank);
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (i == dots) {
      for (int64_t k = hidden; k > 0; --k) out->push_back(static_cast<int>(-k));
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      out->push_back(c);
    } else {
      *problem = cat("'", text, "' has a character that is not a letter");
      return false;
    }
  }
  return true;
}

Equation read(std::string_view text, const std::vector<int64_t>& ranks) {
  Equation out;
  const size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  std::map<int, int> seen;  // sorted, since the letters of an implicit result are in order
  int64_t broad = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == ranks.size())) {
      out.problem = cat("the equation is not one of ", ranks.size(), " operands");
      return out;
    }
    Labels labels;
    if (!read_term(left.substr(0, comma), ranks[i], 0, &labels, &out.problem)) return out;
    for (int l : labels) {
      ++seen[l];
      broad = std::max<int64_t>(broad, -l);
    }
    out.operands.push_back(labels);
    if (comma != std::string_view::npos) left = left.substr(comma + 1);
  }
  if (arrow != std::string_view::npos) {
    if (!read_term(text.substr(arrow + 2), -1, broad, &out.result, &out.problem)) return out;
  } else {
    for (int64_t k = broad; k > 0; --k) out.result.push_back(static_cast<int>(-k));
    for (const auto& [label, count] : seen) {
      if (label > 0 && count == 1) out.result.push_back(label);
    }
  }
  for (size_t i = 0; i < out.result.size(); ++i) {
    if (seen.count(out.result[i]) == 0 ||
        std::count(out.result.begin(), out.result.end(), out.result[i]) != 1)
      out.problem = "the result names a dim twice, or one that no operand has";
  }
  return out;
}

Status infer(const InferQuery& q) {
  std::vector<int64_t> ranks;
  for (uint32_t i = 0; i < q.operand_count(); ++i) {
    if (q.dtype(i) != q.dtype(0))
      return q.fail("C1", cat("operand ", i, " has ", dtype_name(q.dtype(i))));
    ranks.push_back(q.rank(i));
  }
  if (ranks.empty()) return q.fail("C1", "there is no operand");
  const Equation e = read(q.text("equation"), ranks);
  if (!e.problem.empty()) return q.fail("C2", e.problem);
  std::map<int, Dim> extents;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    for (size_t k = 0; k < e.operands[i].size(); ++k) {
      const Dim d = q.dim(static_cast<uint32_t>(i), static_cast<uint32_t>(k));
      const auto [at, fresh] = extents.try_emplace(e.operands[i][k], d);
      if (fresh || d.is(1)) continue;
      if (at->second.is(1)) {
        at->second = d;
      } else {
        TENON_TRY(q.require_equal("C3", at->second, d, "dims of one name"));
      }
    }
  }
  Dims dims;
  for (int l : e.result) dims.push_back(extents[l]);
  return q.result(q.dtype(0), dims);
}

template <class Body>
Status with_any_number(tenon_dtype_t dtype, Body&& body) {
  return is_complex(dtype) ? body(linalg::Number{}) : with_number(dtype, body);
}
template <class Number>
std::vector<Number> numbers_of(const Array& x) {
  if constexpr (std::is_same_v<Number, linalg::Number>) {
    std::vector<Number> out;
    each_index(x.dims(),
               [&](const Index& i) { out.push_back(linalg::load_number(x.dtype(), x.at(i))); });
    return out;
  } else {
    return x.read<Number>();
  }
}
template <class Number>
void store_numbers(const Array& y, const std::vector<Number>& values) {
  if constexpr (std::is_same_v<Number, linalg::Number>) {
    size_t k = 0;
    each_index(y.dims(),
               [&](const Index& i) { linalg::store_number(y.dtype(), y.at(i), values[k++]); });
  } else {
    y.write(values);
  }
}

// One loop over all labels.
Status reference(const Eval& e) {
  std::vector<int64_t> ranks;
  for (uint32_t i = 0; i < e.input_count(); ++i) ranks.push_back(e.input(i).rank());
  const Equation eq = read(e.text("equation"), ranks);
  Labels names = eq.result;
  std::map<int, int64_t> extents;
  for (size_t i = 0; i < eq.operands.size(); ++i) {
    for (size_t k = 0; k < eq.operands[i].size(); ++k) {
      const int l = eq.operands[i][k];
      if (std::count(names.begin(), names.end(), l) == 0) names.push_back(l);
      int64_t& n = extents.try_emplace(l, 1).first->second;
      const int64_t d = e.input(static_cast<uint32_t>(i)).dim(k);
      if (d != 1) n = d;
    }
  }
  Axes all;
  for (int l : names) all.push_back(extents[l]);
  const Array y = e.output();
  return with_any_number(y.dtype(), [&]<class Found>(Found) -> Status {
    using Number = std::conditional_t<std::is_integral_v<Found>, uint64_t, Found>;
    std::vector<std::vector<Number>> values;
    for (uint32_t i = 0; i < e.input_count(); ++i) values.push_back(numbers_of<Number>(e.input(i)));
    std::vector<Number> sums(static_cast<size_t>(y.count()), Number{0});
    const auto y_strides = strides_of(y.dims());
    each_index(all, [&](const Index& at) {
      Number product = 1;
      for (size_t i = 0; i < values.size(); ++i) {
        const auto strides = strides_of(e.input(static_cast<uint32_t>(i)).dims());
        int64_t offset = 0;
        for (size_t k = 0; k < strides.size(); ++k) {
          const auto n = std::find(names.begin(), names.end(), eq.operands[i][k]) - names.begin();
          if (e.input(static_cast<uint32_t>(i)).dim(k) != 1)
            offset += at[static_cast<size_t>(n)] * strides[k];
        }
        product = product * values[i][static_cast<size_t>(offset)];
      }
      sums[static_cast<size_t>(offset_of(std::span(at).first(y_strides.size()), y_strides))] +=
          product;
    });
    store_numbers(y, sums);
    return {};
  });
}

// ---- Decomposition: two operands at a time ----

struct Part {
  Term x;
  Labels labels;
  int64_t place(int label) const {
    return std::find(labels.begin(), labels.end(), label) - labels.begin();
  }
  bool has(int label) const { return place(label) < static_cast<int64_t>(labels.size()); }
};

// Replaces a label that occurs twice in one operand by the diagonal.
void take_diagonals(Part* p) {
  for (size_t i = 0; i < p->labels.size(); ++i) {
    for (size_t k = i + 1; k < p->labels.size(); ++k) {
      if (p->labels[i] != p->labels[k]) continue;
      const int label = p->labels[i];
      p->x.v = p->x.b->build("diagonal", {p->x.v}, {{"dim1", i}, {"dim2", k}});
      p->labels.erase(p->labels.begin() + static_cast<int64_t>(k));
      p->labels.erase(p->labels.begin() + static_cast<int64_t>(i));
      p->labels.push_back(label);
      return take_diagonals(p);
    }
  }
}
// Drops dims of extent 1 where another operand has a larger extent.
void squeeze(Part* p, const std::map<int, Dim>& extents) {
  Dims dims;
  Labels kept;
  for (size_t i = 0; i < p->labels.size(); ++i) {
    const Dim d = p->x.dim(static_cast<int64_t>(i));
    if (d.is(1) && !extents.at(p->labels[i]).is(1)) continue;
    dims.push_back(d);
    kept.push_back(p->labels[i]);
  }
  p->x = reshape(p->x, dims);
  p->labels = kept;
}
// Sums over labels that are not needed any more.
void sum_unneeded(Part* p, const std::map<int, int>& needs) {
  Axes axes;
  Labels kept;
  for (size_t i = 0; i < p->labels.size(); ++i) {
    if (needs.at(p->labels[i]) == 0) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      kept.push_back(p->labels[i]);
    }
  }
  if (axes.empty()) return;
  p->x = reduced("reduce_sum", p->x, axes);
  p->labels = kept;
}
Part multiply(const Part& a, const Part& c, const std::map<int, int>& needs) {
  Axes a_batch, b_batch, a_contract, b_contract;
  Part out;
  Labels rest;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const int l = a.labels[i];
    if (!c.has(l)) {
      rest.push_back(l);
    } else if (needs.at(l) > 0) {
      a_batch.push_back(static_cast<int64_t>(i));
      b_batch.push_back(c.place(l));
      out.labels.push_back(l);
    } else {
      a_contract.push_back(static_cast<int64_t>(i));
      b_contract.push_back(c.place(l));
    }
  }
  for (int l : c.labels) {
    if (!a.has(l)) rest.push_back(l);
  }
  out.labels.insert(out.labels.end(), rest.begin(), rest.end());
  out.x = {*a.x.b, a.x.b->build("dot_general", {a.x.v, c.x.v},
                                {{"a_batch", a_batch},
                                 {"b_batch", b_batch},
                                 {"a_contract", a_contract},
                                 {"b_contract", b_contract}})};
  return out;
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const std::string text = node.text("equation");
  std::vector<int64_t> ranks;
  std::vector<Part> parts;
  for (const Value& v : node.operands()) {
    ranks.push_back(v.rank());
    parts.push_back({{b, v}, {}});
  }
  const Equation e = read(text, ranks);
  std::map<int, Dim> extents;
  std::map<int, int> needs;  // by label: the number of unused parts, plus 1 if the result has it
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].labels = e.operands[i];
    for (size_t k = 0; k < e.operands[i].size(); ++k) {
      const Dim d = parts[i].x.dim(static_cast<int64_t>(k));
      Dim& known = extents.try_emplace(parts[i].labels[k], d).first->second;
      if (known.is(1)) known = d;
    }
  }
  for (Part& p : parts) {
    take_diagonals(&p);
    squeeze(&p, extents);
  }
  for (const auto& [label, d] : extents) needs[label] = 0;
  for (int l : e.result) ++needs[l];
  for (const Part& p : parts) {
    for (int l : p.labels) ++needs[l];
  }
  Part all = parts[0];
  for (int l : all.labels) --needs[l];
  for (size_t i = 1; i < parts.size(); ++i) {
    sum_unneeded(&all, needs);
    Part& next = parts[i];
    for (int l : next.labels) --needs[l];
    // Labels that occur only in this operand can be summed before the product.
    std::map<int, int> wanted = needs;
    for (int l : all.labels) ++wanted[l];
    sum_unneeded(&next, wanted);
    all = multiply(all, next, needs);
  }
  sum_unneeded(&all, needs);
  Axes perm;
  for (int l : e.result) perm.push_back(all.place(l));
  return b.finish(out, {transpose(all.x, perm)});
}

constexpr OpDraft declare() {
  OpDraft draft = op("einsum", kComposite);
  draft.summary("Sums of products over the dims that an equation names but its result does not.")
      .doc(
          "NumPy's equations: a letter per dim, operands separated by commas, '...' for leading "
          "dims that are broadcast, '->' before the dims of the result; without it the result has "
          "the letters that occur once, in order. Of dims of one name, those of 1 are spread.")
      .variadic("operands", "of one element type", kNumber | kComplex)
      .result("y", "element type of the operands")
      .attr_string("equation", "such as \"ij,jk->ik\"", "", "")
      .required()
      .constraint("C1", "there is an operand, and all have one element type",
                  "einsum(f32[2], f64[2]) {equation = \"i,i\"}")
      .constraint("C2",
                  "the equation names the dims of every operand, and those of the result once",
                  "einsum(f32[2]) {equation = \"ij\"}")
      .constraint("C3", "dims of one name are equal or 1",
                  "einsum(f32[2], f32[3]) {equation = \"i,i\"}")
      .example(
          "einsum(f32[2, 2] [[1, 2], [3, 4]], f32[2] [1, 10]) {equation = \"ij,j->i\"} -> f32[2] "
          "[21, 43]")
      .example("einsum(f32[2, 2] [[1, 2], [3, 4]]) {equation = \"ii\"} -> f32[] 5")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

TENON_OPS(einsum, declare)

}  // namespace tenon::ops::einsum_op
