#include "sdk/tools/conform/checks/kernels/op_variants.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/fixtures/graphs/attribute_text.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

using Dims = std::vector<int64_t>;

constexpr size_t kMostCases = 12;  // per op
constexpr size_t kMostPairs = 4;   // per op, of cases that only show another pair of lists
// Inference calls for one example, by what is varied.
constexpr size_t kShapeTries = 80, kBatchTries = 120, kOwnTries = 80, kPairTries = 40;
constexpr size_t kMostOperands = 3;  // operands whose subsets are tried
constexpr int64_t kLong = 263;       // a multiple of no tile size, and larger than any tile
constexpr int64_t kMostMoved = 8;    // the largest number that could be an index of a dim

// ---- Values of attributes ----

// Appends every order of `length` of the first `count` dims.
void add_orders(int64_t count, size_t length, Dims* chosen, std::vector<Dims>* out) {
  if (chosen->size() == length) return out->push_back(*chosen);
  for (int64_t d = 0; d < count; ++d) {
    if (std::find(chosen->begin(), chosen->end(), d) != chosen->end()) continue;
    chosen->push_back(d);
    add_orders(count, length, chosen, out);
    chosen->pop_back();
  }
}

// Lists of dims of an operand, and lists of one count per dim.
std::vector<Dims> integer_lists(const Dims& own, const Dims& shape) {
  std::vector<Dims> out;
  Dims chosen;
  const auto rank = static_cast<int64_t>(std::min<size_t>(shape.size(), 3));
  for (size_t length = 1; length <= static_cast<size_t>(rank); ++length)
    add_orders(rank, length, &chosen, &out);
  out.push_back({});
  for (int64_t count : {1, 2}) out.push_back(Dims(shape.size(), count));
  for (size_t i = 0; i < own.size(); ++i) {
    out.push_back(own);
    ++out.back()[i];
  }
  return out;
}

// Lists of possible extents of a result.
std::vector<Dims> extent_lists(const Dims& own, const Dims& shape) {
  std::vector<Dims> out = {own, shape, Dims(shape.rbegin(), shape.rend())};
  const int64_t all = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  out.push_back({all});
  for (int64_t extra : {2, 3}) {
    out.push_back(shape);
    out.back().insert(out.back().begin(), extra);
    out.push_back(shape);
    out.back().push_back(extra);
  }
  out.push_back({2, 3});
  out.back().insert(out.back().end(), shape.begin(), shape.end());
  if (shape.size() >= 2) {
    Dims first = shape, last = shape;
    first[1] *= first[0], first.erase(first.begin());
    last[last.size() - 2] *= last.back(), last.pop_back();
    out.insert(out.end(), {first, last, Dims(shape.begin() + 1, shape.end())});
  }
  for (int64_t count : {1, 2}) out.push_back(Dims(shape.size(), count));
  if (shape.empty()) out.push_back({kLong});
  out.push_back({2});
  out.push_back({});
  return out;
}

std::string list_text(const Dims& list) {
  return fmt::format("[{}]", dims_text(list));
}

bool is_list(const tenon_attr_def_t& attr) {
  return attr.kind == TENON_ATTR_I64S || attr.kind == TENON_ATTR_DIMS;
}

// Without duplicates.
std::vector<std::string> once(std::vector<std::string> texts) {
  std::vector<std::string> out;
  for (std::string& text : texts)
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  return out;
}

// Possible values, as text, of an attribute in a case whose first operand has these dims.
std::vector<std::string> values_of(const tenon_attr_def_t& attr, const Attributes& own,
                                   const Dims& shape, bool elementwise) {
  std::vector<std::string> out;
  const std::string given = own.get(view(attr.name));
  if (is_list(attr)) {
    const Dims list = dims_of(given);
    const bool extents = attr.kind == TENON_ATTR_DIMS;
    for (const Dims& value : extents ? extent_lists(list, shape) : integer_lists(list, shape))
      out.push_back(list_text(value));
  } else if (attr.kind == TENON_ATTR_I64) {
    for (int value : {0, 1, 2, -1}) out.push_back(std::to_string(value));
    // Numbers that may select one of several functions.
    for (int value : {3, 4, 5})
      if (elementwise) out.push_back(std::to_string(value));
  } else if (attr.kind == TENON_ATTR_F64) {
    out = {"0.5"};
  } else if (attr.kind == TENON_ATTR_STRING) {
    for (std::string_view word : split(view(attr.choices), '|'))
      out.push_back(fmt::format("\"{}\"", word));
  } else if (attr.kind == TENON_ATTR_DTYPE) {
    out = {"f32", "f64", "f16", "bf16", "i32", "i64"};
  }
  return once(std::move(out));
}

// ---- Shapes of operands ----

OpCase with_dims(OpCase c, size_t operand, const Dims& dims) {
  c.operands[operand] = changed_dims(c.operands[operand], dims_text(dims));
  return c;
}

// The operands that have dims.
std::vector<size_t> with_rank(const OpCase& c) {
  std::vector<size_t> out;
  for (size_t i = 0; i < c.operands.size(); ++i)
    if (c.operands[i] != "_" && !dims_of(c.operands[i]).empty()) out.push_back(i);
  return out;
}

OpCase all_with_dims(OpCase c, const Dims& dims) {
  for (size_t i : with_rank(c)) c = with_dims(std::move(c), i, dims);
  return c;
}

// Adds, for every subset of the operands, the case in which these have the leading dims `before`.
void add_batches(const OpCase& example, const Dims& before, std::vector<OpCase>* out) {
  const std::vector<size_t> operands = with_rank(example);
  const size_t count = std::min(operands.size(), kMostOperands);
  for (size_t subset = (size_t{1} << count) - 1; subset != 0; --subset) {
    OpCase c = example;
    for (size_t i = 0; i < count; ++i) {
      if ((subset >> i & 1) == 0) continue;
      Dims dims = dims_of(c.operands[operands[i]]);
      dims.insert(dims.begin(), before.begin(), before.end());
      c = with_dims(std::move(c), operands[i], dims);
    }
    // Operands after the first three are included with all of those.
    for (size_t i = count; i < operands.size() && subset == (size_t{1} << count) - 1; ++i) {
      Dims dims = dims_of(c.operands[operands[i]]);
      dims.insert(dims.begin(), before.begin(), before.end());
      c = with_dims(std::move(c), operands[i], dims);
    }
    out->push_back(std::move(c));
  }
}

// The example in other shapes, those that most often go wrong first. Distinct extents distinguish
// strides; equal extents let lists of several operands meet in every way.
std::vector<OpCase> shapes_of(const OpCase& example) {
  std::vector<OpCase> out;
  const std::vector<size_t> operands = with_rank(example);
  if ((example.traits & TENON_TRAIT_ELEMENTWISE) != 0) return {all_with_dims(example, {3, 4})};
  if (operands.size() > 1) out.push_back(all_with_dims(example, {3, 3, 3}));
  for (const Dims& dims : {Dims{2, 3, 4}, Dims{3, 3}, Dims{3, 4}, Dims{3}})
    if (!operands.empty()) out.push_back(all_with_dims(example, dims));
  for (const Dims& dims : {Dims{2, 3, 4}, Dims{3, 4}, Dims{1, 3}, Dims{3, 1}, Dims{3}})
    if (operands.size() > 1) out.push_back(with_dims(example, operands[0], dims));
  return out;
}

// Each operand in turn with rank 0.
std::vector<OpCase> scalars_of(const OpCase& shaped) {
  std::vector<OpCase> out;
  for (size_t i : with_rank(shaped))
    if (shaped.operands.size() > 1) out.push_back(with_dims(shaped, i, {}));
  return out;
}

// ---- Choosing ----

// Aspects of a case that another case might not cover.
using Features = std::vector<std::string>;

Features features_of(const OpCase& c, const Attributes& attributes, bool pairs) {
  Features out;
  const tenon_op_def_t& op = *c.declaration;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const std::string_view name = view(tenon_op_attr(&op, i)->name);
    const std::string value = attributes.get(name);
    if (!pairs) {
      out.push_back(fmt::format("{}={}", name, value));
      continue;
    }
    for (uint32_t k = i + 1; k < op.attr_count; ++k)
      if (is_list(*tenon_op_attr(&op, i)) && is_list(*tenon_op_attr(&op, k)))
        out.push_back(fmt::format("{}={} {}={}", name, value, view(tenon_op_attr(&op, k)->name),
                                  attributes.get(view(tenon_op_attr(&op, k)->name))));
  }
  if (pairs) return out;
  std::string ranks = "ranks";
  for (const std::string& type : c.operands)
    ranks += type == "_" ? " _" : fmt::format(" {}", dims_of(type).size());
  out.push_back(std::move(ranks));
  for (const std::string& type : c.operands)
    for (int64_t dim : dims_of(type))
      if (dim == kLong) out.push_back(fmt::format("long {}", type));
  return out;
}

// Lists of a set of dims count as equal in any order; lists that state an order do not.
std::string sorted_text(const std::string& list) {
  Dims dims = dims_of(list);
  std::sort(dims.begin(), dims.end());
  return list_text(dims);
}

bool is_default(const tenon_attr_def_t& attr, const std::string& value) {
  if (is_list(attr)) return value == "[]";
  if (attr.kind == TENON_ATTR_I64) return value == std::to_string(attr.default_i);
  if (attr.kind == TENON_ATTR_STRING) return value == fmt::format("\"{}\"", view(attr.default_s));
  return attr.kind == TENON_ATTR_DTYPE && value == dtype_name(attr.default_i);
}

// The chosen cases of one op.
class Choice {
 public:
  Choice(const HostTables& host, std::vector<OpCase>* out) : host_(host), out_(*out) {}

  // Offers the case with each extent of its first operand made long in turn.
  void offer_long(const OpCase& shaped, const Attributes& attributes) {
    const std::vector<size_t> operands = with_rank(shaped);
    if (operands.empty()) return;
    OpCase c = shaped;
    c.attributes = attributes.text();
    for (size_t d = 0; d < dims_of(c.operands[operands[0]]).size(); ++d) {
      std::set<std::pair<size_t, size_t>> done;
      if (std::optional<OpCase> grown = with_extent(c, {operands[0], d}, kLong, &done))
        offer(std::move(*grown), attributes, false);
    }
  }

  // Limits the number of further inference calls.
  void allow(size_t tries) { tries_ = tries; }

  // Keeps the case if it shows something new and inference accepts it.
  void offer(OpCase c, const Attributes& attributes, bool pairs) {
    size_t& taken = pairs ? pairs_ : taken_;
    if (taken >= (pairs ? kMostPairs : kMostCases) || tries_ == 0) return;
    const Features features = features_of(c, canonical(c, attributes), pairs);
    if (std::all_of(features.begin(), features.end(),
                    [&](const std::string& f) { return seen_.contains(f); }))
      return;
    c.attributes = attributes.text();
    if (!tried_.insert(c.name()).second) return;
    --tries_;
    if (!infer_results(host_, &c)) return;
    seen_.insert(features.begin(), features.end());
    for (std::string& f : features_of(c, canonical(c, attributes), !pairs))
      seen_.insert(std::move(f));
    ++taken;
    out_.push_back(with_rank(c).size() > 1 ? spread(std::move(c)) : std::move(c));
  }

 private:
  // Attributes in a canonical form: a default equals an omitted value, and an op that takes lists
  // of one dim and of several takes sets.
  Attributes canonical(const OpCase& c, const Attributes& attributes) const {
    Attributes out = attributes;
    const tenon_op_def_t& op = *c.declaration;
    for (uint32_t i = 0; i < op.attr_count; ++i) {
      const std::string name(view(tenon_op_attr(&op, i)->name)), value = attributes.get(name);
      if (is_default(*tenon_op_attr(&op, i), value)) out = out.with(name, "");
      if (tenon_op_attr(&op, i)->kind != TENON_ATTR_I64S || value.find(',') == std::string::npos)
        continue;
      for (const char* single : {"=[0]", "=[1]", "=[2]"})
        if (seen_.contains(name + single)) out = out.with(name, sorted_text(value));
    }
    return out;
  }

  // Makes equal extents distinct, one by one, as far as inference allows; if two must be equal,
  // together with one of another operand.
  OpCase spread(OpCase c) {
    int64_t next = 2;
    std::set<std::pair<size_t, size_t>> done;
    for (size_t i : with_rank(c)) {
      for (size_t d = 0; d < dims_of(c.operands[i]).size(); ++d) {
        if (dims_of(c.operands[i])[d] != 3 || done.contains({i, d})) continue;
        const std::optional<OpCase> changed = with_extent(c, {i, d}, next, &done);
        if (!changed) continue;
        c = *changed;
        next += next == 2 ? 2 : 1;
      }
    }
    return c;
  }

  // The case with another extent at `at` and, if inference requires it, the same extent at one
  // place of another operand.
  std::optional<OpCase> with_extent(const OpCase& c, std::pair<size_t, size_t> at, int64_t extent,
                                    std::set<std::pair<size_t, size_t>>* done) {
    const auto changed = [&](OpCase from, std::pair<size_t, size_t> place) {
      Dims dims = dims_of(from.operands[place.first]);
      dims[place.second] = extent;
      return with_dims(std::move(from), place.first, dims);
    };
    OpCase alone = changed(c, at);
    if (infer_results(host_, &alone)) return alone;
    for (size_t k : with_rank(c)) {
      if (k == at.first) continue;
      for (size_t d = 0; d < dims_of(c.operands[k]).size(); ++d) {
        if (done->contains({k, d})) continue;
        OpCase both = changed(changed(c, at), {k, d});
        if (!infer_results(host_, &both)) continue;
        done->insert({k, d});
        return both;
      }
    }
    return std::nullopt;
  }

  const HostTables& host_;
  std::vector<OpCase>& out_;
  std::set<std::string> seen_, tried_;
  size_t taken_ = 0, pairs_ = 0, tries_ = 0;
};

// The list attributes of an op, each with values to try.
struct Lists {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> values;
};

// All combinations of their values, or each list alone.
void offer_lists(const OpCase& shaped, const Attributes& own, const Lists& lists, bool together,
                 bool pairs, Choice* choice) {
  if (!together) {
    for (size_t i = 0; i < lists.names.size(); ++i)
      for (const std::string& value : lists.values[i])
        choice->offer(shaped, own.with(lists.names[i], value), pairs);
    return;
  }
  size_t count = lists.names.empty() ? 0 : 1;
  for (const std::vector<std::string>& of : lists.values) count *= of.size();
  for (size_t turn = 0; turn < count; ++turn) {
    // Pairs are taken in a scattered order, so that the first ones differ.
    size_t number = pairs ? turn * 617 % count : turn;
    Attributes attributes = own;
    for (size_t i = lists.names.size(); i-- > 0; number /= lists.values[i].size())
      attributes =
          attributes.with(lists.names[i], lists.values[i][number % lists.values[i].size()]);
    choice->offer(shaped, attributes, pairs);
  }
}

// Up to two lists are combined in all values, up to four in those that name at most one dim.
void offer_chosen_lists(const HostTables& host, const OpCase& shaped, const Attributes& own,
                        bool pairs, Choice* choice) {
  const std::vector<size_t> operands = with_rank(shaped);
  const Dims shape = operands.empty() ? Dims() : dims_of(shaped.operands[operands[0]]);
  const tenon_op_def_t& op = *shaped.declaration;
  Lists lists;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    if (!is_list(*tenon_op_attr(&op, i))) continue;
    lists.names.emplace_back(view(tenon_op_attr(&op, i)->name));
    lists.values.push_back(values_of(*tenon_op_attr(&op, i), own, shape, false));
  }
  // With more lists most keep their values, which must fit the shape.
  OpCase probe = shaped;
  if (lists.names.size() > 4 && !infer_results(host, &probe)) return;
  if (lists.names.size() == 3 || lists.names.size() == 4) {
    Lists few = lists;
    for (std::vector<std::string>& of : few.values)
      std::erase_if(of, [](const std::string& value) { return dims_of(value).size() > 1; });
    offer_lists(shaped, own, few, true, pairs, choice);
  }
  offer_lists(shaped, own, lists, lists.names.size() <= 2, pairs, choice);
}

// What a list may become if dims are prepended to its operand: unchanged, counted from after the
// new dims, with the new dims added, or with a count for each of them.
std::vector<std::string> with_leading_dims(const Dims& list, const Dims& before) {
  std::vector<Dims> out(3, list);
  const auto by = static_cast<int64_t>(before.size());
  for (Dims* shifted : {&out[1], &out[2]})
    for (int64_t& dim : *shifted) dim += by;
  for (int64_t dim = by; dim-- > 0;) out[2].insert(out[2].begin(), dim);
  for (int64_t count : {0, 1}) {
    out.push_back(list);
    out.back().insert(out.back().begin(), before.size(), count);
  }
  out.push_back(list);
  out.back().insert(out.back().begin(), before.begin(), before.end());
  std::vector<std::string> texts;
  for (const Dims& one : out) texts.push_back(list_text(one));
  return once(std::move(texts));
}

void offer_batches(const OpCase& example, const Attributes& own, const Dims& before,
                   Choice* choice) {
  const tenon_op_def_t& op = *example.declaration;
  Lists lists;
  Attributes moved = own;
  // If an op has many lists, those that the example omits stay omitted.
  int lists_of_op = 0;
  for (uint32_t i = 0; i < op.attr_count; ++i) lists_of_op += is_list(*tenon_op_attr(&op, i));
  const bool few = lists_of_op <= 4;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const std::string name(view(tenon_op_attr(&op, i)->name));
    const std::string given = own.get(name);
    if (is_list(*tenon_op_attr(&op, i)) && (!given.empty() || few)) {
      lists.names.push_back(name);
      lists.values.push_back(with_leading_dims(dims_of(given), before));
    } else if (tenon_op_attr(&op, i)->kind == TENON_ATTR_I64) {
      const int64_t dim =
          given.empty() ? tenon_op_attr(&op, i)->default_i : dims_of("[" + given + "]").front();
      if (dim > kMostMoved) continue;
      moved = moved.with(name, std::to_string(dim + static_cast<int64_t>(before.size())));
    }
  }
  std::vector<OpCase> shapes;
  add_batches(example, before, &shapes);
  for (const OpCase& shaped : shapes) {
    choice->offer(shaped, own, false);
    choice->offer(shaped, moved, false);
    if (lists.names.size() <= 2 || (lists.names.size() <= 4 && before.size() == 1)) {
      offer_lists(shaped, own, lists, true, false, choice);
      continue;
    }
    for (size_t way = 1; way < 6; ++way) {
      Attributes all = own;
      for (size_t i = 0; i < lists.names.size(); ++i)
        all = all.with(lists.names[i], lists.values[i][std::min(way, lists.values[i].size() - 1)]);
      choice->offer(shaped, all, false);
    }
  }
}

// The attributes that are not lists: only those that name element types, or only the others.
void offer_single(const OpCase& shaped, const Attributes& own, bool dtypes, Choice* choice) {
  const tenon_op_def_t& op = *shaped.declaration;
  const bool elementwise = (op.traits & TENON_TRAIT_ELEMENTWISE) != 0;
  for (uint32_t i = 0; i < op.attr_count; ++i)
    if (!is_list(*tenon_op_attr(&op, i)) &&
        (tenon_op_attr(&op, i)->kind == TENON_ATTR_DTYPE) == dtypes)
      for (const std::string& value : values_of(*tenon_op_attr(&op, i), own, {}, elementwise))
        choice->offer(shaped, own.with(view(tenon_op_attr(&op, i)->name), value), false);
}

OpCase in_f32(const OpCase& example) {
  const std::string own = dtype_of(example);
  return own == "f32" || own.empty() ? example : with_dtype(example, own, "f32");
}

void offer_all(const HostTables& host, const OpCase& example, Choice* choice) {
  Attributes own;
  if (!Attributes::read(example.attributes, &own)) return;  // an op with regions
  OpCase plain = in_f32(example);
  if (!infer_results(host, &plain)) plain = example;
  std::vector<OpCase> shapes = shapes_of(plain);
  if (shapes.empty()) shapes.push_back(plain);
  choice->allow(kOwnTries);
  choice->offer(shapes[0], own, false);
  const uint32_t cost = plain.declaration->cost_class;
  if (cost == TENON_COST_REDUCTION || cost == TENON_COST_CONTRACTION)
    choice->offer_long(shapes[0], own);
  for (const OpCase& shaped : shapes) {
    choice->allow(kShapeTries);
    choice->offer(shaped, own, false);
    offer_single(shaped, own, false, choice);
    offer_chosen_lists(host, shaped, own, false, choice);
  }
  for (const Dims& before : {Dims{2}, Dims{2, 3}})
    if ((plain.traits & TENON_TRAIT_ELEMENTWISE) == 0) {
      choice->allow(kBatchTries);
      offer_batches(plain, own, before, choice);
    }
  choice->allow(kOwnTries);
  for (const OpCase& from : {shapes[0], plain})
    for (const OpCase& shaped : scalars_of(from)) choice->offer(shaped, own, false);
  offer_single(plain, own, false, choice);
  offer_chosen_lists(host, plain, own, false, choice);
  offer_single(plain, own, true, choice);
  choice->allow(kPairTries);
  offer_chosen_lists(host, shapes[0], own, true, choice);
}

}  // namespace

std::vector<OpCase> argument_cases(const tenon_host_t* host) {
  const HostTables tables = host_tables(host);
  std::vector<OpCase> out;
  std::optional<Choice> choice;
  std::string last;
  for (const OpCase& example : op_examples(host)) {
    if (!choice || example.op != last) choice.emplace(tables, &out);
    last = example.op;
    offer_all(tables, example, &*choice);
  }
  return out;
}

std::vector<OpCase> conversion_cases(const tenon_host_t* host) {
  return generate_cases(host, [](const OpCase& example, std::vector<OpCase>* out) {
    Attributes own;
    if (!is_elementwise(example) || !Attributes::read(example.attributes, &own)) return;
    const tenon_op_def_t& op = *example.declaration;
    const OpCase shaped = with_shape(example, "16, 16");
    for (uint32_t i = 0; i < op.attr_count; ++i) {
      if (tenon_op_attr(&op, i)->kind != TENON_ATTR_DTYPE) continue;
      for (tenon_dtype_t from = TENON_PRED; from < elements::kDtypeEnd; ++from) {
        OpCase c = with_dtype(shaped, dtype_of(shaped), dtype_name(from));
        for (tenon_dtype_t to = TENON_PRED; to < elements::kDtypeEnd; ++to) {
          c.attributes = own.with(view(tenon_op_attr(&op, i)->name), dtype_name(to)).text();
          out->push_back(c);
        }
      }
    }
  });
}

}  // namespace tenon::conform
