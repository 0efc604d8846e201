// Every example of every op, through the public door, on every device of this build: the device gets the nodes that it
// claims, and what the declaration states must come out. Prints how many examples each device took.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/host.h"
#include "tenon/cpp/session.hpp"

namespace {

// ---- The expression form as a graph's text ------------------------------------------------------------------------

struct Example {
  std::string op, attrs;
  std::vector<std::string> operands, results;  // "TYPE LITERAL", or "_"
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// The end of what begins with the bracket at `at`.
size_t closing(std::string_view s, size_t at) {
  int depth = 0;
  for (size_t i = at; i < s.size(); ++i) {
    if (strchr("([{", s[i])) ++depth;
    if (strchr(")]}", s[i]) && --depth == 0) return i;
  }
  return s.size();
}

std::vector<std::string> split(std::string_view s) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && strchr("([{", s[i])) i = closing(s, i);
    if (i >= s.size() || s[i] == ',') {
      const std::string_view part = trimmed(s.substr(begin, std::min(i, s.size()) - begin));
      if (!part.empty()) out.emplace_back(part);
      begin = i + 1;
    }
  }
  return out;
}

Example parse(std::string_view text) {
  Example out;
  const size_t open = text.find('('), close = closing(text, open);
  out.op = text.substr(0, open);
  out.operands = split(text.substr(open + 1, close - open - 1));
  std::string_view rest = trimmed(text.substr(close + 1));
  if (rest.starts_with('{')) {
    const size_t end = closing(rest, 0);
    out.attrs = rest.substr(0, end + 1);
    rest = trimmed(rest.substr(end + 1));
  }
  if (rest.starts_with("->")) rest = trimmed(rest.substr(2));
  if (rest.starts_with('(')) rest = rest.substr(1, closing(rest, 0) - 1);
  out.results = split(rest);
  return out;
}

std::string type_of(const std::string& typed) { return typed.substr(0, typed.find(']') + 1); }

std::string header(const Example& e) {
  std::string out = "tenon.tir 1\ngraph @example() -> (";
  for (size_t i = 0; i < e.results.size(); ++i) {
    out += tenon::cat(i ? ", " : "", "r", i, ": ", type_of(e.results[i]));
  }
  return out + ") {\n";
}

std::string constants(const std::vector<std::string>& values, std::string& names) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string name = values[i] == "_" ? "_" : tenon::cat("%", i);
    if (name != "_") out += tenon::cat("  ", name, " = const ", values[i], "\n");
    names += (i ? ", " : "") + name;
  }
  return out;
}

std::string computing(const Example& e) {
  std::string names, results, types;
  const std::string values = constants(e.operands, names);
  for (size_t i = 0; i < e.results.size(); ++i) {
    results += tenon::cat(i ? ", " : "", "%", e.operands.size() + i);
    types += (i ? ", " : "") + type_of(e.results[i]);
  }
  const std::string attrs = e.attrs.empty() ? "" : " " + e.attrs;
  return header(e) + values + "  " + results + " = " + e.op + "(" + names + ")" + attrs + " : " + types + "\n  yield " +
         results + "\n}\n";
}

std::string stating(const Example& e) {
  std::string names;
  const std::string values = constants(e.results, names);
  return header(e) + values + "  yield " + names + "\n}\n";
}

// ---- Running --------------------------------------------------------------------------------------------------------

struct Result {
  tenon_dtype_t dtype;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;
};

int64_t width_of(tenon_dtype_t t) {
  switch (t) {
    case TENON_PRED: case TENON_I8: case TENON_U8: return 1;
    case TENON_I16: case TENON_U16: case TENON_F16: case TENON_BF16: return 2;
    case TENON_I32: case TENON_U32: case TENON_F32: return 4;
    default: return 8;
  }
}

class Devices : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(session_.open().ok()) << tenon::failure_text(); }

  // False with the reason in `why`. taken: no other device took part.
  bool run(const std::string& text, const std::string& device, std::vector<Result>* out, bool* taken, std::string* why) {
    const tenon_host_graph_t& graph = *tenon::context().graph;
    tenon_blob_t* blob = nullptr;
    tenon::Model model;
    tenon::Program program;
    tenon::Binding binding;
    std::string summary;
    const auto& api = session_.api();
    bool ok = graph.blob_bytes(graph.self, text.data(), text.size(), &blob) == TENON_OK &&
              api.model_load_bytes(api.self, blob, tenon::str("example.tir"), {}, model.out()) == TENON_OK;
    if (blob) graph.blob_release(graph.self, blob);
    tenon_model_info_t info = {};
    ok = ok && model.info(&info).ok() && model.compile({.device = device, .pipeline = "none"}, &program).ok() &&
         program.bind(&binding).ok() && binding.run().ok() && program.summary(&summary).ok();
    for (uint32_t i = 0; ok && i < info.output_count; ++i) {
      tenon::ArrayView array;
      ok = binding.output(tenon::view(info.outputs[i].name), &array).ok();
      if (!ok) break;
      const auto* data = static_cast<const unsigned char*>(array.data);
      out->push_back({array.dtype, array.dims, {data, data + array.element_count() * width_of(array.dtype)}});
    }
    *why = ok ? "" : tenon::failure_text();
    *taken = summary.empty();
    return ok;
  }
  static tenon::Session session_;
};
tenon::Session Devices::session_;

float half_value(uint16_t bits, bool bf16) {
  if (bf16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float out;
    memcpy(&out, &wide, sizeof out);
    return out;
  }
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = bits >> 15 ? -1.f : 1.f;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.f + static_cast<float>(mantissa), exponent - 25)
                          : std::ldexp(static_cast<float>(mantissa), -24));
}

double element(const Result& r, size_t i) {
  auto at = [&]<class T>(T) {
    T v;
    memcpy(&v, r.bytes.data() + i * sizeof v, sizeof v);
    return v;
  };
  switch (r.dtype) {
    case TENON_F32: return static_cast<double>(at(0.f));
    case TENON_F64: return at(0.0);
    case TENON_F16: return static_cast<double>(half_value(at(uint16_t{}), false));
    default: return static_cast<double>(half_value(at(uint16_t{}), true));
  }
}

// Empty when they agree, else what differs.
std::string difference(const Result& got, const Result& wanted, double factor) {
  if (got.dtype != wanted.dtype || got.dims != wanted.dims) return "another type or shape";
  const bool halves = got.dtype == TENON_F16 || got.dtype == TENON_BF16;
  if (got.dtype != TENON_F32 && got.dtype != TENON_F64 && !halves) {
    return got.bytes == wanted.bytes ? "" : "other integers";
  }
  const size_t count = got.bytes.size() / static_cast<size_t>(width_of(got.dtype));
  double most = 1;
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(element(wanted, i))) most = std::max(most, std::fabs(element(wanted, i)));
  }
  for (size_t i = 0; i < count; ++i) {
    const double a = element(got, i), b = element(wanted, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::fabs(a - b) <= (halves ? 2e-2 : 1e-4) * factor * most;
    if (!same) return tenon::cat("element ", i, " is ", a, ", stated is ", b);
  }
  return "";
}

struct Listed {
  std::vector<std::string> examples;
  std::map<std::string, double> factors;
};

void list(void* context, const tenon_op_def_t* op, tenon_str_t) {
  auto& out = *static_cast<Listed*>(context);
  for (uint32_t i = 0; i < op->example_count; ++i) {
    out.examples.emplace_back(tenon::view(op->examples[i]));
    out.factors[out.examples.back()] = op->tolerance > 0 ? op->tolerance : 1;
  }
}

TEST_F(Devices, ExamplesOfEveryOpComeTrueOnEveryDevice) {
  const auto* registry = tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  ASSERT_NE(registry, nullptr);
  Listed listed;
  ASSERT_EQ(registry->op_each(registry->self, &listed, &list), TENON_OK);
  ASSERT_GT(listed.examples.size(), 80u);
  for (const char* device : {TENON_TEST_DEVICES}) {
    size_t taken_by_device = 0;
    for (const std::string& text : listed.examples) {
      const Example example = parse(text);
      std::vector<Result> got, wanted;
      bool taken = false, ignored = false;
      std::string why;
      EXPECT_TRUE(run(stating(example), "reference", &wanted, &ignored, &why)) << text << "\n" << why;
      EXPECT_TRUE(run(computing(example), device, &got, &taken, &why)) << device << ": " << text << "\n" << why;
      taken_by_device += taken ? 1 : 0;
      for (size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
        EXPECT_EQ(difference(got[i], wanted[i], listed.factors[text]), "") << device << ": " << text << ", result " << i;
      }
    }
    printf("%s took %zu of %zu examples\n", device, taken_by_device, listed.examples.size());
    EXPECT_GT(taken_by_device, 0u) << device;
  }
}

}  // namespace
