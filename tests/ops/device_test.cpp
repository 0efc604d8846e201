// Every example of every op on every available device, through libtenon as a program uses it. A
// device gets the nodes that it claims; the others run elsewhere, and the result must still be
// right.
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

#include "tenon/abi/ops.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/session.hpp"

namespace tenon {
namespace {

// ---- Reading examples ----

// Complex numbers are compared as their parts.
tenon_dtype_t part_of(tenon_dtype_t dtype) {
  return dtype == TENON_C64 ? TENON_F32 : dtype == TENON_C128 ? TENON_F64 : dtype;
}

struct Tensor {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  std::vector<double> numbers;
  std::vector<std::byte> bytes() const {
    const tenon_dtype_t part = part_of(dtype);
    std::vector<std::byte> out(numbers.size() * dtype_bytes(part));
    for (size_t i = 0; i < numbers.size(); ++i)
      store_double(part, out.data() + i * dtype_bytes(part), numbers[i]);
    return out;
  }
};
struct Example {
  std::string op;
  std::vector<Tensor> operands, results;
  std::map<std::string, std::string, std::less<>> attrs;  // as written
};

// Reads the expression form, as far as examples use it: op(type literal, ...) {name = value, ...}
// -> type literal, ...
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  Example example() {
    Example out;
    out.op = word();
    take('(');
    while (!at(')')) {
      out.operands.push_back(tensor());
      if (at(',')) take(',');
    }
    take(')');
    if (at('{')) attributes(&out);
    take('-');
    take('>');
    do {
      if (at(',')) take(',');
      out.results.push_back(tensor());
    } while (at(','));
    return out;
  }

 private:
  bool at(char c) {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    return !rest_.empty() && rest_[0] == c;
  }
  void take(char c) {
    if (at(c)) {
      rest_.remove_prefix(1);
    } else {
      ADD_FAILURE() << c << " expected at " << rest_;
      rest_ = {};
    }
  }
  std::string word() {
    at(' ');
    size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_' ||
            rest_[n] == '.' || rest_[n] == '-' || rest_[n] == '+')) {
      ++n;
    }
    const std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }
  Tensor tensor() {
    Tensor out;
    out.dtype = dtype_of(word());
    take('[');
    while (!at(']') && !rest_.empty()) {
      out.dims.push_back(std::strtoll(word().c_str(), nullptr, 10));
      if (at(',')) take(',');
    }
    take(']');
    numbers(&out.numbers);
    return out;
  }
  void numbers(std::vector<double>* out) {
    if (at('(')) {
      take('(');
      out->push_back(std::strtod(word().c_str(), nullptr));
      take(',');
      out->push_back(std::strtod(word().c_str(), nullptr));
      take(')');
      return;
    }
    if (!at('[')) {
      out->push_back(std::strtod(word().c_str(), nullptr));
      return;
    }
    take('[');
    while (!at(']') && !rest_.empty()) {
      numbers(out);
      if (at(',')) take(',');
    }
    take(']');
  }
  void attributes(Example* out) {
    take('{');
    while (!at('}') && !rest_.empty()) {
      const std::string name = word();
      take('=');
      at(' ');
      const char close = rest_[0] == '[' ? ']' : rest_[0] == '"' ? '"' : '\0';
      const size_t n = close == '\0' ? rest_.find_first_of(",}") : rest_.find(close, 1) + 1;
      out->attrs[name] = std::string(rest_.substr(0, n));
      rest_.remove_prefix(n);
      if (at(',')) take(',');
    }
    take('}');
  }
  std::string_view rest_;
};

// This reader cannot build regions; tests/control runs such ops on devices.
bool has_regions(std::string_view text) {
  return text.find(" regions {") != std::string_view::npos;
}

// ---- Building and running ----

const tenon_host_registry_t& registry() {
  return *context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
}

std::vector<int64_t> list(std::string_view text) {
  std::vector<int64_t> out;
  for (size_t i = 1; i < text.size();) {
    int64_t v = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), v);
    if (error == std::errc()) out.push_back(v);
    i = error == std::errc() ? static_cast<size_t>(end - text.data()) : i + 1;
  }
  return out;
}

std::vector<double> number_list(std::string_view text) {
  std::vector<double> out;
  const std::string copy(text.substr(1));
  for (const char* p = copy.c_str(); *p != '\0' && *p != ']';) {
    char* end = nullptr;
    const double v = std::strtod(p, &end);
    if (end != p) out.push_back(v);
    p = end != p ? end : p + 1;
  }
  return out;
}

Attr attribute(const tenon_attr_def_t& def, const std::string& text) {
  const std::string_view name = view(def.name);
  switch (def.kind) {
    case TENON_ATTR_I64:
      return Attr(name, std::strtoll(text.c_str(), nullptr, 10));
    case TENON_ATTR_F64:
      return Attr(name, std::strtod(text.c_str(), nullptr));
    case TENON_ATTR_DTYPE:
      return Attr(name, dtype(dtype_of(text)));
    case TENON_ATTR_STRING:
      return Attr(name, std::string_view(text).substr(1, text.size() - 2));
    default:
      break;
  }
  ADD_FAILURE() << "no list attribute expected: " << name;
  return Attr(name, 0);
}

// A graph with the operands as inputs and the results as outputs, named by their numbers.
Status build(const tenon_op_def_t& def, const Example& example, Graph* out) {
  TENON_TRY(Graph::create(example.op, out));
  const Region main = main_region(out->get());
  std::vector<Value> operands;
  for (const Tensor& t : example.operands) {
    Type type = {t.dtype, {}};
    for (int64_t d : t.dims) type.dims.push_back(Dim(out->get(), d));
    Value v;
    TENON_TRY(argument(main, type, cat("x", operands.size()), &v));
    operands.push_back(v);
  }
  std::vector<std::vector<int64_t>> lists;  // borrowed by the attributes below
  lists.reserve(def.attr_count);
  std::vector<std::vector<double>> number_lists;
  number_lists.reserve(def.attr_count);
  Attrs attrs;
  for (uint32_t i = 0; i < def.attr_count; ++i) {
    const auto found = example.attrs.find(view(def.attrs[i].name));
    if (found == example.attrs.end()) continue;
    if (def.attrs[i].kind == TENON_ATTR_I64S) {
      lists.push_back(list(found->second));
      attrs.push_back(Attr(view(def.attrs[i].name), lists.back()));
    } else if (def.attrs[i].kind == TENON_ATTR_F64S) {
      number_lists.push_back(number_list(found->second));
      attrs.push_back(Attr(view(def.attrs[i].name), number_lists.back()));
    } else if (def.attrs[i].kind == TENON_ATTR_DIMS) {
      Dims dims;
      for (int64_t d : list(found->second)) dims.push_back(Dim(out->get(), d));
      attrs.push_back(Attr(view(def.attrs[i].name), dims));
    } else {
      attrs.push_back(attribute(def.attrs[i], found->second));
    }
  }
  Builder b(out->get(), main.id());
  const Node node = b.build_node(example.op, operands, attrs);
  TENON_TRY(b.status());
  std::vector<Value> results;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < node.result_count(); ++i) {
    results.push_back(node.result(i));
    names.push_back(cat("y", i));
  }
  return yield(main, results, names);
}

double tolerance_of(const tenon_op_def_t& def, tenon_dtype_t dtype) {
  const double factor = def.tolerance > 0 ? def.tolerance : 1;
  return factor * (dtype == TENON_F32   ? 4e-6
                   : dtype == TENON_F64 ? 1e-12
                   : is_float(dtype)    ? 2e-2
                                        : 0);
}

// The number of programs that ran on the requested device, and the number that ran elsewhere.
struct Tally {
  int whole = 0, elsewhere = 0;
};

uint32_t graph_outputs(const Graph& graph) {
  return static_cast<uint32_t>(main_region(graph.get()).yields().size());
}

// What is wrong; empty if nothing is. With `collect`, returns the results instead of comparing
// them.
std::string run(const Session& session, const tenon_op_def_t& def, const Example& example,
                std::string_view device, Tally* tally, std::vector<Tensor>* collect = nullptr) {
  Graph graph;
  if (!build(def, example, &graph).ok()) return failure_text();
  Model model;
  if (session.api().model_from_graph(session.api().self, graph.get(), model.out()) != TENON_OK)
    return failure_text();
  Program program;
  // Without passes: folding constant inputs would leave the device nothing to do.
  if (!model.compile({.device = device, .pipeline = "none"}, &program).ok()) return failure_text();
  tenon_program_info_t info;
  if (!program.info(&info).ok()) return failure_text();
  std::string placement;
  if (!program.placement(&placement).ok()) return failure_text();
  const std::string only = cat("\"devices\":[{\"device\":\"", device);
  const size_t first = placement.find(only), nodes = placement.find("\"nodes\":[");
  const bool whole =
      first != std::string::npos && placement.find("{\"device\"", first + only.size()) >= nodes;
  ++(whole ? tally->whole : tally->elsewhere);
  Binding binding;
  if (!program.bind(&binding).ok()) return failure_text();
  std::vector<std::vector<std::byte>> data;
  for (size_t i = 0; i < example.operands.size(); ++i) {
    data.push_back(example.operands[i].bytes());
    const ArrayView array = {example.operands[i].dtype, example.operands[i].dims,
                             data.back().data()};
    if (!binding.input(cat("x", i), array).ok()) return failure_text();
  }
  if (!binding.run().ok()) return failure_text();
  for (uint32_t r = 0; collect != nullptr && r < graph_outputs(graph); ++r) {
    ArrayView got;
    if (!binding.output(cat("y", r), &got).ok()) return failure_text();
    Tensor tensor = {got.dtype, got.dims, {}};
    const tenon_dtype_t part = part_of(got.dtype);
    const int64_t parts = got.element_count() * (part == got.dtype ? 1 : 2);
    for (int64_t i = 0; i < parts; ++i) {
      tensor.numbers.push_back(
          load_double(part, static_cast<const std::byte*>(got.data) + i * dtype_bytes(part)));
    }
    collect->push_back(std::move(tensor));
  }
  if (collect != nullptr) return {};
  for (size_t r = 0; r < example.results.size(); ++r) {
    const Tensor& wanted = example.results[r];
    ArrayView got;
    if (!binding.output(cat("y", r), &got).ok()) return failure_text();
    if (got.dtype != wanted.dtype || got.dims != wanted.dims)
      return cat("result ", r, " has another type");
    const double tolerance = tolerance_of(def, part_of(wanted.dtype));
    const tenon_dtype_t part = part_of(got.dtype);
    for (size_t i = 0; i < wanted.numbers.size(); ++i) {
      const double a =
          load_double(part, static_cast<const std::byte*>(got.data) + i * dtype_bytes(part));
      const double b = load_double(part, wanted.bytes().data() + i * dtype_bytes(part));
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (!(std::fabs(a - b) <= tolerance * std::max(std::fabs(b), 1.0)))
        return cat("element ", i, " is ", a, ", not ", b);
    }
  }
  return {};
}

std::vector<const tenon_op_def_t*> standard_ops() {
  std::vector<const tenon_op_def_t*> ops;
  EXPECT_EQ(
      registry().op_each(registry().self, &ops,
                         [](void* out, const tenon_op_def_t* op, tenon_str_t plugin) {
                           auto* list = static_cast<std::vector<const tenon_op_def_t*>*>(out);
                           // The ambiguous ones have tests of what holds of all results.
                           if (view(plugin) == "ops" && (op->traits & TENON_TRAIT_AMBIGUOUS) == 0)
                             list->push_back(op);
                         }),
      TENON_OK);
  return ops;
}

class OnDevice : public testing::TestWithParam<const char*> {};

TEST_P(OnDevice, ExamplesComeTrue) {
  Session session;
  ASSERT_TRUE(session.open().ok()) << failure_text();
  const std::vector<const tenon_op_def_t*> ops = standard_ops();
  ASSERT_GE(ops.size(), 80u);
  Tally tally;
  for (const tenon_op_def_t* def : ops) {
    // sim takes a tenth of a second to compile a program, so it gets only the first example.
    const bool first = std::string_view(GetParam()) == "sim";
    for (uint32_t i = 0; i < (first ? std::min(def->example_count, 1u) : def->example_count); ++i) {
      if (has_regions(view(def->examples[i]))) continue;
      const Example example = Reader(view(def->examples[i])).example();
      EXPECT_EQ(run(session, *def, example, GetParam(), &tally), "")
          << view(def->examples[i]) << " on " << GetParam();
    }
  }
  RecordProperty("whole", tally.whole);
  RecordProperty("elsewhere", tally.elsewhere);
  EXPECT_GT(tally.whole, 100) << tally.elsewhere << " examples had to run elsewhere";
}

// The values of NumPy and ONNX: larger shapes and less usual numbers than the examples.
TEST_P(OnDevice, ValuesAgree) {
  Session session;
  ASSERT_TRUE(session.open().ok()) << failure_text();
  std::ifstream file(TENON_VALUE_CASES);
  ASSERT_TRUE(file.good()) << TENON_VALUE_CASES;
  // For the same reason sim gets one in eight.
  const size_t step = std::string_view(GetParam()) == "sim" ? 8 : 1;
  size_t count = 0;
  Tally tally;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || has_regions(line) || count++ % step != 0) continue;
    const Example example = Reader(line).example();
    const tenon_op_def_t* def = nullptr;
    ASSERT_EQ(registry().op_find(registry().self, intern(example.op), 0, &def), TENON_OK) << line;
    EXPECT_EQ(run(session, *def, example, GetParam(), &tally), "") << line << " on " << GetParam();
  }
}

// The examples in every other element type that the op accepts, compared with the reference device.
TEST_P(OnDevice, ElementTypesAgreeWithReference) {
  if (std::string_view(GetParam()) != "cpu") return;
  Session session;
  ASSERT_TRUE(session.open().ok()) << failure_text();
  Tally tally;
  for (const tenon_op_def_t* def : standard_ops()) {
    if (def->operand_count == 0 || def->example_count == 0 || has_regions(view(def->examples[0])))
      continue;
    Example example = Reader(view(def->examples[0])).example();
    for (tenon_dtype_t dtype = TENON_PRED; dtype <= TENON_F64; ++dtype) {
      if (!is_in(dtype, kNumber | kPred) || example.operands.empty()) continue;
      Example other = example;
      bool takes = true;
      for (size_t i = 0; i < other.operands.size(); ++i) {
        const tenon_operand_def_t& o = def->operands[std::min<size_t>(i, def->operand_count - 1)];
        const bool follows =
            i == 0 || (o.dtype_group != 0 && o.dtype_group == def->operands[0].dtype_group);
        if (follows) other.operands[i].dtype = dtype;
        takes = takes && is_in(other.operands[i].dtype, o.dtypes);
      }
      other.results.clear();
      if (!takes) continue;
      const std::string wrong = run(session, *def, other, "reference", &tally, &other.results);
      if (wrong.find("T03") != std::string::npos) continue;  // a constraint, such as acc
      ASSERT_EQ(wrong, "") << view(def->examples[0]) << " in " << dtype_name(dtype);
      EXPECT_EQ(run(session, *def, other, GetParam(), &tally), "")
          << view(def->examples[0]) << " in " << dtype_name(dtype) << " on " << GetParam();
    }
  }
}

std::vector<const char*> devices() {
  std::vector<const char*> out = {"reference"};
#ifdef TENON_TEST_CPU
  out.push_back("cpu");
#endif
#ifdef TENON_TEST_SIM
  out.push_back("sim");
#endif
  return out;
}
INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, testing::ValuesIn(devices()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon
