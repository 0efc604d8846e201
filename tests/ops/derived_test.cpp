// Tests derived from declarations, for every registered op: its examples, one negative per labelled
// constraint, the round trip through text, decomposition and scalar program against the reference,
// inferred against computed shapes. Also the values of NumPy, SciPy and ONNX in values.cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <random>
#include <set>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/ir/dims/expression.h"
#include "core/ir/dtype.h"
#include "core/ir/serial/serial.h"
#include "core/op/evaluate.h"
#include "core/op/registry.h"
#include "test_host.h"

namespace tenon {
namespace {

using op::HostArray;
using op::Meaning;

const std::vector<const op::OpRecord*>& ops() {
  static const std::vector<const op::OpRecord*> all = [] {
    EXPECT_EQ(register_test_ops(), "");
    return op::Registry::instance().records();
  }();
  return all;
}

// ---- Arrays ----

std::vector<double> numbers(const tenon_array_t& a) {
  std::vector<double> out;
  std::vector<int64_t> index(a.rank, 0);
  int64_t count = 1;
  for (uint32_t d = 0; d < a.rank; ++d) count *= a.dims[d];
  for (int64_t n = 0; n < count; ++n) {
    const std::byte* p = static_cast<const std::byte*>(a.data);
    for (uint32_t d = 0; d < a.rank; ++d) p += index[d] * a.strides_bytes[d];
    const auto load = [p](auto zero) {
      std::memcpy(&zero, p, sizeof zero);
      return zero;
    };
    switch (a.dtype) {
      case TENON_PRED:
      case TENON_U8:
        out.push_back(load(uint8_t{}));
        break;
      case TENON_I8:
        out.push_back(load(int8_t{}));
        break;
      case TENON_I16:
        out.push_back(load(int16_t{}));
        break;
      case TENON_U16:
        out.push_back(load(uint16_t{}));
        break;
      case TENON_I32:
        out.push_back(load(int32_t{}));
        break;
      case TENON_U32:
        out.push_back(load(uint32_t{}));
        break;
      case TENON_I64:
        out.push_back(static_cast<double>(load(int64_t{})));
        break;
      case TENON_U64:
        out.push_back(static_cast<double>(load(uint64_t{})));
        break;
      case TENON_F16:
        out.push_back(ir::f16_to_f32(load(uint16_t{})));
        break;
      case TENON_BF16:
        out.push_back(ir::bf16_to_f32(load(uint16_t{})));
        break;
      case TENON_F32:
        out.push_back(load(float{}));
        break;
      case TENON_F64:
        out.push_back(load(double{}));
        break;
      case TENON_C64:
      case TENON_C128:
        for (size_t part = 0; part < 2; ++part) {
          float narrow = 0;
          double wide = 0;
          std::memcpy(&narrow, p + part * 4, 4);
          if (a.dtype == TENON_C128) std::memcpy(&wide, p + part * 8, 8);
          out.push_back(a.dtype == TENON_C128 ? wide : narrow);
        }
        break;
      default:
        ADD_FAILURE() << "no numbers of " << ir::dtype_name(a.dtype);
    }
    for (uint32_t d = a.rank; d-- > 0;) {
      if (++index[d] < a.dims[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

// The first difference as text; empty if there is none. `factor` multiplies the tolerance of the
// element type.
std::string difference(const tenon_array_t& got, const tenon_array_t& wanted, double factor) {
  if (got.dtype != wanted.dtype) return "element types differ";
  if (got.rank != wanted.rank || !std::equal(got.dims, got.dims + got.rank, wanted.dims))
    return "shapes differ";
  const double narrow = got.dtype == TENON_F16 ? 2e-3 : got.dtype == TENON_BF16 ? 1.6e-2 : 0;
  const bool single = got.dtype == TENON_F32 || got.dtype == TENON_C64;
  const bool wide = got.dtype == TENON_F64 || got.dtype == TENON_C128;
  const double tolerance = factor * (single ? 2e-6 : wide ? 1e-13 : narrow);
  const std::vector<double> a = numbers(got), b = numbers(wanted);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    // Sums lose relative accuracy where they cancel, so small results may have the error of numbers
    // of size 1.
    const bool both = std::isfinite(a[i]) && std::isfinite(b[i]);
    if (both && std::fabs(a[i] - b[i]) <= tolerance * std::max(std::fabs(b[i]), 1.0)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", not " +
           std::to_string(b[i]);
  }
  return {};
}

// ---- Expressions ----

struct Built {
  ir::Expression expression;
  ir::Node node = ir::kNone;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<tenon_array_t> inputs;
};

// Parses and builds, and makes arrays of the operands' literals.
Result<Built> build(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(ir::Expression expression, ir::parse_expression(text, "expression"));
  Built out;
  out.expression = std::move(expression);
  TENON_ASSIGN_OR_RETURN(out.node, ir::build_expression(out.expression));
  for (const ir::ExpressionValue& v : out.expression.operands) {
    tenon_array_t array = {};
    if (v.value != ir::kNone && v.blob) {
      out.shapes.emplace_back();
      TENON_ASSIGN_OR_RETURN(
          array, op::constant_array(*out.expression.graph, v.value, &out.shapes.back()));
    }
    out.inputs.push_back(array);
  }
  return out;
}

Result<std::vector<HostArray>> evaluate(const Built& b, Meaning meaning = Meaning::kFirst) {
  return op::evaluate(*b.expression.graph, b.node, {}, b.inputs, meaning);
}

// The literal of a result as an array.
HostArray literal(const ir::ExpressionValue& v) {
  Result<HostArray> out = HostArray::create(v.type.dtype, v.type.dims);
  EXPECT_TRUE(out.ok());
  Result<const void*> data =
      v.blob ? v.blob->data() : Result<const void*>(Status(TENON_NOT_FOUND, "T0201", "no literal"));
  EXPECT_TRUE(data.ok());
  if (data.ok() && out->size_bytes() != 0) std::memcpy(out->view().data, *data, out->size_bytes());
  return std::move(*out);
}

// Whether a type agrees with inference; a dim that the op itself defines may have any value.
bool agrees(const ir::Graph& graph, ir::Node node, const tenon_type_t& inferred,
            const tenon_type_t& found) {
  if (inferred.dtype != found.dtype || inferred.rank != found.rank || inferred.kind != found.kind)
    return false;
  for (uint32_t d = 0; d < inferred.rank; ++d) {
    const bool own = inferred.dims[d] < 0 && !graph.symbols(node).empty();
    if (!own && !graph.dims().equal(inferred.dims[d], found.dims[d])) return false;
  }
  return true;
}

double tolerance_of(const tenon_op_def_t& def) {
  return def.tolerance > 0 ? def.tolerance : 1;
}

// Evaluates an expression by every meaning of its op and compares with the results that it states.
void check_values(std::string_view text, double factor) {
  Result<Built> b = build(text);
  ASSERT_TRUE(b.ok()) << text << "\n" << b.status().text();
  const ir::Graph& graph = *b->expression.graph;
  const tenon_op_def_t* def = ir::op_set()->find(graph.node(b->node).op, 0);
  ASSERT_TRUE(b->expression.has_results) << text;
  const auto results = graph.results(b->node);
  ASSERT_EQ(b->expression.results.size(), results.size()) << text;
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(
        agrees(graph, b->node, graph.type(results[i]), b->expression.results[i].type.view()))
        << text << "\ninference gives " << graph.type_text(graph.type(results[i]));
  }
  const auto is_complex = [&](ir::Value v) {
    return v != ir::kNone && ir::dtype_is_complex(graph.type(v).dtype);
  };
  const bool by_parts = def->decompose_complex != nullptr &&
                        (std::ranges::any_of(graph.operands(b->node), is_complex) ||
                         std::ranges::any_of(results, is_complex));
  // A formula over parts rounds many times.
  const double allowed = factor * tolerance_of(*def) * (by_parts ? 4 : 1);
  for (Meaning meaning : {Meaning::kReference, Meaning::kScalar, Meaning::kDecomposition}) {
    const bool has = meaning == Meaning::kDecomposition ? by_parts || def->decompose != nullptr
                     : by_parts                         ? false
                     : meaning == Meaning::kReference   ? def->reference != nullptr
                                                        : def->scalar_words != 0;
    if (!has) continue;
    Result<std::vector<HostArray>> got = evaluate(*b, meaning);
    ASSERT_TRUE(got.ok()) << text << "\nmeaning " << static_cast<int>(meaning) << ": "
                          << got.status().text();
    for (size_t i = 0; i < results.size(); ++i) {
      const HostArray wanted = literal(b->expression.results[i]);
      EXPECT_EQ(difference((*got)[i].view(), wanted.view(), allowed), "")
          << text << "\nmeaning " << static_cast<int>(meaning) << ", result " << i;
    }
  }
}

// ---- The tests ----

// Ops without values to compute: a token has no data, and only its plugin knows a custom call.
const std::set<std::string> kWithoutValue = {"custom_call", "token"};

TEST(Derived, EveryOpIsDeclaredWhole) {
  ASSERT_GE(ops().size(), 80u);
  for (const op::OpRecord* r : ops()) {
    const std::string name(from_abi_str(r->def.name));
    EXPECT_GT(r->def.summary.size, 0u) << name;
    EXPECT_TRUE(r->def.example_count > 0 || kWithoutValue.count(name) != 0) << name;
    for (uint32_t i = 0; i < r->def.operand_count; ++i)
      EXPECT_GT(r->def.operands[i].doc.size, 0u) << name;
    for (uint32_t i = 0; i < r->def.attr_count; ++i)
      EXPECT_GT(r->def.attrs[i].doc.size, 0u) << name;
  }
}

TEST(Derived, ExamplesComeTrue) {
  for (const op::OpRecord* r : ops()) {
    for (uint32_t i = 0; i < r->def.example_count; ++i)
      check_values(from_abi_str(r->def.examples[i]), 1);
  }
}

TEST(Derived, EachNegativeBreaksItsConstraintAlone) {
  for (const op::OpRecord* r : ops()) {
    for (uint32_t i = 0; i < r->def.constraint_count; ++i) {
      const tenon_constraint_def_t& c = r->def.constraints[i];
      const std::string_view text = from_abi_str(c.negative);
      Result<ir::Expression> parsed = ir::parse_expression(text, "negative");
      ASSERT_TRUE(parsed.ok()) << text << "\n" << parsed.status().text();
      EXPECT_EQ(sym_text(parsed->op), from_abi_str(r->def.name)) << text;
      Result<ir::Node> built = ir::build_expression(*parsed);
      ASSERT_FALSE(built.ok()) << text << " is accepted, but breaks " << from_abi_str(c.label);
      EXPECT_EQ(built.status().evidence_value("constraint"), from_abi_str(c.label))
          << text << "\n"
          << built.status().text();
    }
  }
}

TEST(Derived, GraphsOfExamplesReadBackAsWritten) {
  for (const op::OpRecord* r : ops()) {
    for (uint32_t i = 0; i < r->def.example_count; ++i) {
      const std::string_view text = from_abi_str(r->def.examples[i]);
      Result<Built> b = build(text);
      ASSERT_TRUE(b.ok()) << text << "\n" << b.status().text();
      ir::Graph& graph = *b->expression.graph;
      const auto results = graph.results(b->node);
      ASSERT_TRUE(graph.set_yields(graph.main(), results, {}).ok()) << text;
      const Status valid = graph.verify();
      ASSERT_TRUE(valid.ok()) << text << "\n" << valid.text();
      const Result<ir::TextForm> first = ir::write_text(graph);
      ASSERT_TRUE(first.ok()) << text << "\n" << first.status().text();
      Result<ir::Ref<ir::Graph>> again = ir::read_text(first->text, "round trip", {});
      ASSERT_TRUE(again.ok()) << text << "\n" << first->text << "\n" << again.status().text();
      const Result<ir::TextForm> second = ir::write_text(**again);
      ASSERT_TRUE(second.ok()) << second.status().text();
      EXPECT_EQ(second->text, first->text) << text;
    }
  }
}

// A random array: floats in (0, 1), integers below 4, so that every op stays in its domain.
HostArray random_array(tenon_dtype_t dtype, std::span<const int64_t> dims,
                       std::mt19937_64* random) {
  Result<HostArray> made = HostArray::create(dtype, dims);
  EXPECT_TRUE(made.ok());
  const uint32_t width = ir::dtype_bits(dtype) / 8;
  for (uint64_t at = 0; at < made->size_bytes(); at += width) {
    auto* p = static_cast<std::byte*>(made->view().data) + at;
    const double x = std::uniform_real_distribution<double>(0.05, 0.95)(*random);
    const float narrow = static_cast<float>(x);
    const uint16_t half = dtype == TENON_F16 ? ir::f32_to_f16(narrow) : ir::f32_to_bf16(narrow);
    const int64_t integer = static_cast<int64_t>((*random)() % (dtype == TENON_PRED ? 2 : 4));
    switch (dtype) {
      case TENON_F64:
        std::memcpy(p, &x, 8);
        break;
      case TENON_F32:
        std::memcpy(p, &narrow, 4);
        break;
      case TENON_F16:
      case TENON_BF16:
        std::memcpy(p, &half, 2);
        break;
      default:
        std::memcpy(p, &integer, std::min<size_t>(width, 8));
        break;
    }
  }
  return std::move(*made);
}

// The call of an example with another element type: `dtype` for every operand that must have the
// type of operand 0. Empty if the op does not accept it.
std::optional<Built> with_dtype(const tenon_op_def_t& def, const Built& from, tenon_dtype_t dtype) {
  Built out;
  out.expression.graph = ir::Graph::create("other types");
  std::vector<ir::Value> operands;
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    const tenon_operand_def_t& o = def.operands[std::min<size_t>(i, def.operand_count - 1)];
    const bool follows =
        i == 0 || (o.dtype_group != 0 && o.dtype_group == def.operands[0].dtype_group);
    tenon_array_t array = from.inputs[i];
    if (follows) array.dtype = dtype;
    if (!(o.dtypes >> array.dtype & 1)) return {};
    const tenon_type_t type = {array.dtype, TENON_KIND_TENSOR, array.rank, array.dims, 0};
    Result<ir::Value> v = out.expression.graph->add_argument(0, type, "");
    if (!v.ok()) return {};
    operands.push_back(*v);
    out.inputs.push_back(array);
  }
  ir::NodeDraft draft;
  draft.op = from.expression.op;
  draft.operands = operands;
  draft.attrs = from.expression.attrs;
  Result<ir::Node> node = out.expression.graph->build({0, ir::kNone}, draft);
  if (!node.ok()) return {};  // such as acc = i32 for floats
  out.node = *node;
  return out;
}

// On random operands of every element type that an op accepts, the decomposition, the scalar
// program and the reference agree with each other and with inference.
TEST(Derived, MeaningsAgreeInEveryElementType) {
  std::mt19937_64 random(7);
  int calls = 0;
  for (const op::OpRecord* r : ops()) {
    for (uint32_t i = 0; i < r->def.example_count; ++i) {
      const std::string_view text = from_abi_str(r->def.examples[i]);
      Result<Built> example = build(text);
      ASSERT_TRUE(example.ok()) << text << "\n" << example.status().text();
      for (tenon_dtype_t dtype = TENON_PRED; dtype < TENON_C64; ++dtype) {
        if (r->def.operand_count == 0 || dtype == TENON_F8E4M3FN || dtype == TENON_F8E5M2) continue;
        std::optional<Built> b = with_dtype(r->def, *example, dtype);
        if (!b) continue;
        ++calls;
        std::deque<HostArray> owned;
        for (tenon_array_t& a : b->inputs) {
          a = owned.emplace_back(random_array(a.dtype, {a.dims, a.rank}, &random)).view();
        }
        std::vector<std::vector<HostArray>> found;
        for (Meaning m : {Meaning::kReference, Meaning::kScalar, Meaning::kDecomposition}) {
          Result<std::vector<HostArray>> got = evaluate(*b, m);
          if (!got.ok() && got.status().code() == TENON_FAILED_PRECONDITION) continue;
          // Random numbers may be invalid as indices, or break an assertion; the op reports it.
          if (!got.ok() && got.status().code() == TENON_OUT_OF_RANGE) continue;
          if (!got.ok() && got.status().text().find("T0326") != std::string::npos) continue;
          ASSERT_TRUE(got.ok()) << text << " in " << ir::dtype_name(dtype) << "\n"
                                << got.status().text();
          found.push_back(std::move(*got));
        }
        const ir::Graph& graph = *b->expression.graph;
        for (size_t m = 0; m < found.size(); ++m) {
          for (size_t k = 0; k < found[m].size(); ++k) {
            const tenon_array_t& got = found[m][k].view();
            const tenon_type_t type = {got.dtype, TENON_KIND_TENSOR, got.rank, got.dims, 0};
            EXPECT_TRUE(agrees(graph, b->node, graph.type(graph.results(b->node)[k]), type))
                << text;
            EXPECT_EQ(difference(got, found[0][k].view(), 4 * tolerance_of(r->def)), "")
                << text << " in " << ir::dtype_name(dtype);
          }
        }
      }
    }
  }
  EXPECT_GT(calls, 500);
}

// Shape arithmetic: for constant integers, value_of gives what the op computes.
TEST(Derived, KnownValuesAreTheComputedOnes) {
  std::mt19937_64 random(11);
  std::set<std::string> known;
  for (const op::OpRecord* r : ops()) {
    if (r->def.value_of == nullptr) continue;
    const std::string name(from_abi_str(r->def.name));
    for (uint32_t i = 0; i < r->def.example_count; ++i) {
      Result<Built> example = build(from_abi_str(r->def.examples[i]));
      ASSERT_TRUE(example.ok()) << example.status().text();
      ir::Graph& graph = *example->expression.graph;
      // Constant operands: those with the type of operand 0 as i64, the others unchanged.
      std::vector<ir::Value> operands;
      std::vector<tenon_array_t> arrays;
      std::deque<HostArray> owned;
      bool fits = true;
      for (size_t k = 0; k < example->inputs.size(); ++k) {
        const tenon_operand_def_t& o =
            r->def.operands[std::min<size_t>(k, r->def.operand_count - 1)];
        const bool integral = ir::dtype_is_integer(example->inputs[k].dtype);
        if (integral || example->inputs[k].dtype == TENON_PRED) {
          operands.push_back(example->expression.operands[k].value);
          arrays.push_back(example->inputs[k]);
          continue;
        }
        fits = fits && (o.dtypes >> TENON_I64 & 1) != 0;
        const tenon_array_t& from = example->inputs[k];
        HostArray& made =
            owned.emplace_back(random_array(TENON_I64, {from.dims, from.rank}, &random));
        const tenon_type_t type = {TENON_I64, TENON_KIND_TENSOR, from.rank, from.dims, 0};
        const std::span<const std::byte> bytes(static_cast<const std::byte*>(made.view().data),
                                               made.size_bytes());
        Result<ir::Ref<ir::Blob>> blob = ir::blob_bytes(bytes);
        ASSERT_TRUE(blob.ok());
        Result<ir::Value> constant = graph.add_constant(type, *blob);
        ASSERT_TRUE(constant.ok()) << constant.status().text();
        operands.push_back(*constant);
        arrays.push_back(made.view());
      }
      ir::NodeDraft draft;
      draft.op = example->expression.op;
      draft.operands = operands;
      draft.attrs = example->expression.attrs;
      if (!fits) continue;
      Result<ir::Node> node = graph.build({0, ir::kNone}, draft);
      if (!node.ok()) continue;  // types that do not match, such as i64 and i32
      const auto dims = op::known_value(graph, graph.results(*node)[0]);
      if (!dims) continue;
      Result<std::vector<HostArray>> got = op::evaluate(graph, *node, {}, arrays);
      ASSERT_TRUE(got.ok()) << name << got.status().text();
      const std::vector<double> wanted = numbers((*got)[0].view());
      ASSERT_EQ(dims->size(), wanted.size()) << name;
      for (size_t k = 0; k < wanted.size(); ++k) {
        int64_t value = 0;
        ASSERT_TRUE(graph.dims().evaluate((*dims)[k], {}, &value).ok()) << name;
        EXPECT_EQ(static_cast<double>(value), wanted[k]) << name << " element " << k;
      }
      known.insert(name);
    }
  }
  EXPECT_GE(known.size(), 18u) << "too few ops were asked";
}

TEST(Values, AgreeWithNumPyAndOnnx) {
  ops();
  std::ifstream file(TENON_VALUE_CASES);
  ASSERT_TRUE(file.good()) << TENON_VALUE_CASES;
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    seen.insert(line.substr(0, line.find('(')));
    check_values(line, 4);
  }
  for (const op::OpRecord* r : ops()) {
    const std::string name(from_abi_str(r->def.name));
    EXPECT_TRUE(seen.count(name) != 0 || kWithoutValue.count(name) != 0)
        << "values.cases has no case of " << name << ": write tests/ops/cases/" << name
        << ".py and run tests/ops/write_cases.py --bless (tests/ops/README.md)";
  }
}

}  // namespace
}  // namespace tenon
