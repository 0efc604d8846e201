// Group G, ops: shape arithmetic, traits, arrays of any strides, threads.
#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/ops/op_call.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr unsigned kThreads = 4;

struct KnownQuestion {
  std::vector<std::vector<tenon_dim_t>> values;  // by operand; empty: not known
  static tenon_code_t value_of(void* self, uint32_t operand, const tenon_dim_t** out,
                               uint64_t* count) {
    const auto& q = *static_cast<KnownQuestion*>(self);
    if (operand >= q.values.size() || q.values[operand].empty()) return TENON_NOT_FOUND;
    *out = q.values[operand].data();
    *count = q.values[operand].size();
    return TENON_OK;
  }
};

bool integers_of(const Array& array, std::vector<tenon_dim_t>* out) {
  const uint32_t bits = dtype_bits(array.dtype);
  if (!is_in(array.dtype, kAnyInt) || bits < 8) return false;
  for (int64_t i = 0; i < array.count(); ++i) {
    int64_t value = 0;
    std::memcpy(&value, array.bytes.data() + i * (bits / 8), bits / 8);
    const bool is_signed = array.dtype >= TENON_I8 && array.dtype <= TENON_I64;
    if (is_signed && bits < 64)
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
    if (value < 0) return false;  // a negative constant dim is not written as itself
    out->push_back(value);
  }
  return true;
}

Outcome known_values(const HostTables& host, const Example& e, size_t* known) {
  const tenon_op_def_t& op = *e.op;
  std::vector<tenon_attr_t> attributes;
  std::vector<Array> operands;
  if (e.has_regions || !portable_attributes(host, e, &attributes) ||
      !with_dtype(e, TENON_I64, &operands))
    return pass();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dtype == TENON_I64 && e.operands[i].dtype != TENON_I64)
      fill_tame(&operands[i], i + 1);
    else
      operands[i] = e.operands[i];
  }
  Call call;
  Failure why;
  std::vector<Array> expected;
  std::string problem;
  if (!build_call(host, &op, attributes, operands, true, &call, &why) ||
      !evaluate_graph(host, call.graph.get(), {}, &expected, &problem))
    return pass();
  KnownQuestion question;
  std::vector<tenon_type_t> types;
  for (const Array& a : operands) {
    if (!integers_of(a, &question.values.emplace_back())) question.values.back().clear();
    types.push_back(
        {a.dtype, TENON_KIND_TENSOR, static_cast<uint32_t>(a.dims.size()), a.dims.data(), 0});
  }
  std::vector<tenon_attr_t> declared(op.attr_count);
  (void)host.registry->node_attrs(host.registry->self, call.graph.get(), call.node,
                                  declared.data());
  auto query = sized<tenon_infer_t>();
  query.operand_count = static_cast<uint32_t>(types.size());
  query.attr_count = op.attr_count;
  query.op = &op;
  query.graph = call.graph.get();
  query.operands = types.data();
  query.attrs = declared.data();
  query.host = &question;
  query.value_of = KnownQuestion::value_of;
  for (uint32_t r = 0; r < expected.size(); ++r) {
    std::vector<tenon_dim_t> wanted;
    if (expected[r].count() > 4096 || !integers_of(expected[r], &wanted)) continue;
    std::vector<tenon_dim_t> found(wanted.size() + 1, -77);
    if (op.value_of(op.self, &query, r, found.data()) != TENON_OK) continue;
    ++*known;
    CONFORM_EXPECT(found.back() == -77, "{}: value_of writes more elements than result {} has",
                   printable(e.text, 300), r);
    found.pop_back();
    CONFORM_EXPECT(found == wanted,
                   "{} on integers: value_of says other elements of result {} than the reference",
                   printable(e.text, 300), r);
  }
  return pass();
}

Outcome op_known_values(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t known = 0, offered = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    if (op->value_of == nullptr) continue;
    ++offered;
    for (const Example& example : examples_of(plugin.host, op)) {
      s.step("value_of of " + printable(example.text, 300));
      CONFORM_TRY(known_values(plugin.host, example, &known));
    }
  }
  if (offered == 0) return not_offered("its ops have no value_of");
  return known == 0 ? skipped("no example has integers whose results it knows") : pass();
}

Outcome check_traits(const HostTables& host, const Example& e, size_t* tried) {
  const tenon_op_def_t& op = *e.op;
  std::vector<tenon_attr_t> attributes;
  if (e.has_regions || !portable_attributes(host, e, &attributes)) return pass();
  const std::string what = printable(e.text, 300);
  if ((op.traits & TENON_TRAIT_ELEMENTWISE) != 0) {
    ++*tried;
    for (const Array& operand : e.operands) {
      CONFORM_EXPECT(operand.dtype == TENON_DTYPE_NONE || operand.dims.empty() ||
                         operand.dims == e.expected[0].dims,
                     "{}: it says that it is elementwise, and shapes differ", what);
    }
  }
  if ((op.traits & TENON_TRAIT_COMMUTATIVE) != 0 && e.operands.size() == 2) {
    ++*tried;
    const std::vector<Array> swapped = {e.operands[1], e.operands[0]};
    Call call;
    Failure why;
    std::vector<Array> found;
    std::string problem;
    CONFORM_EXPECT(
        build_call(host, &op, attributes, swapped, true, &call, &why) &&
            evaluate_graph(host, call.graph.get(), {}, &found, &problem),
        "{}: it says that it commutes, and does not take its operands in the other order", what);
    CONFORM_TRY(
        compare_all(what, "result with operands in the other order", op, found, e.expected));
  }
  if ((op.traits & TENON_TRAIT_IDEMPOTENT) != 0 && e.operands.size() == 1) {
    ++*tried;
    Call call;
    Failure why;
    std::vector<Array> found;
    std::string problem;
    CONFORM_EXPECT(build_call(host, &op, attributes, {&e.expected[0], 1}, true, &call, &why) &&
                       evaluate_graph(host, call.graph.get(), {}, &found, &problem),
                   "{}: it says that it is idempotent, and does not take its result", what);
    CONFORM_TRY(compare_all(what, "second application", op, found, e.expected));
  }
  return pass();
}

Outcome op_traits(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t tried = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      s.step("traits of " + printable(example.text, 300));
      CONFORM_TRY(check_traits(plugin.host, example, &tried));
    }
  }
  return tried == 0 ? not_offered("its ops have no trait that could be tried") : pass();
}

// An array with other strides: every second element of a larger one, the last dim backwards.
struct Strided {
  std::vector<unsigned char> bytes;
  std::vector<int64_t> strides;
  tenon_array_t array = {};
};
bool make_strided(const Array& from, Strided* out) {
  const auto width = static_cast<int64_t>(dtype_bits(from.dtype) / 8);
  if (width == 0) return false;
  const size_t rank = from.dims.size();
  out->strides.resize(rank + 1);
  int64_t next = 2 * width;
  for (size_t d = rank; d-- > 0; next *= std::max<int64_t>(from.dims[d], 1)) out->strides[d] = next;
  out->bytes.assign(static_cast<size_t>(next) + 16, 0x5a);
  unsigned char* first = out->bytes.data();
  if (rank != 0 && from.dims[rank - 1] > 0) {
    first += (from.dims[rank - 1] - 1) * out->strides[rank - 1];
    out->strides[rank - 1] = -out->strides[rank - 1];
  }
  std::vector<int64_t> index(rank);
  for (int64_t n = 0; n < from.count(); ++n) {
    unsigned char* at = first;
    for (size_t d = 0; d < rank; ++d) at += index[d] * out->strides[d];
    std::memcpy(at, from.bytes.data() + n * width, static_cast<size_t>(width));
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < from.dims[d]) break;
      index[d] = 0;
    }
  }
  out->array = {sizeof(tenon_array_t), from.dtype,         0, static_cast<uint32_t>(rank), 0, first,
                from.dims.data(),      out->strides.data()};
  return true;
}

// Evaluates a call of the example on these arrays, and compares.
Outcome evaluate_on(const HostTables& host, const Example& e, const Call& call,
                    std::span<const tenon_array_t> inputs, const std::vector<Array>& expected,
                    std::string_view arrays) {
  std::vector<tenon_array_t> outputs(expected.size());
  for (tenon_array_t& output : outputs) output.size_bytes = sizeof(output);
  const std::vector<int64_t> symbols(64, 0);
  const std::string what = fmt::format("{} on {}", printable(e.text, 300), arrays);
  CONFORM_EXPECT(
      host.registry->evaluate(host.registry->self, call.graph.get(), call.node, symbols.data(),
                              static_cast<uint32_t>(symbols.size()), inputs.data(),
                              static_cast<uint32_t>(inputs.size()), outputs.data(),
                              static_cast<uint32_t>(outputs.size())) == TENON_OK,
      "{}: {}", what, last_failure(host).text);
  Outcome outcome = pass();
  for (size_t r = 0; r < outputs.size(); ++r) {
    Array found =
        make_array(outputs[r].dtype, {outputs[r].dims, outputs[r].dims + outputs[r].rank});
    std::memcpy(found.bytes.data(), outputs[r].data, found.bytes.size() - 8);
    host.registry->array_free(host.registry->self, &outputs[r]);
    const std::string wrong = difference(found, expected[r], tolerance_of(*e.op));
    if (!wrong.empty()) outcome = failed("{}: result {}: {}", what, r, wrong);
  }
  return outcome;
}

Outcome strided_operands(const HostTables& host, const Example& e) {
  std::deque<Strided> strided;
  std::vector<tenon_array_t> inputs;
  for (const Array& operand : e.operands) {
    auto none = sized<tenon_array_t>();
    if (operand.dtype == TENON_DTYPE_NONE)
      inputs.push_back(none);
    else if (make_strided(operand, &strided.emplace_back()))
      inputs.push_back(strided.back().array);
    else
      return pass();
  }
  std::vector<std::vector<unsigned char>> before;
  for (const Strided& one : strided) before.push_back(one.bytes);
  Outcome outcome = evaluate_on(host, e, e.call, inputs, e.expected, "strided arrays");
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != strided[i].bytes)
      outcome = failed("{}: it changes operand {}", printable(e.text, 300), i);
  }
  return outcome;
}

// Operands whose first dim has the stride 0, against the same elements written out.
Outcome repeated_operands(const HostTables& host, const Example& e) {
  std::vector<tenon_attr_t> attributes;
  if (!portable_attributes(host, e, &attributes)) return pass();
  std::deque<std::vector<int64_t>> strides;
  std::vector<Array> written = e.operands;
  std::vector<tenon_array_t> inputs;
  for (Array& operand : written) {
    auto array = sized<tenon_array_t>();
    const auto width = static_cast<int64_t>(dtype_bits(operand.dtype) / 8);
    if (operand.dtype != TENON_DTYPE_NONE) {
      if (width == 0) return pass();
      std::vector<int64_t>& stride = strides.emplace_back(operand.dims.size() + 1);
      int64_t next = width;
      for (size_t d = operand.dims.size(); d-- > 0; next *= operand.dims[d]) stride[d] = next;
      const bool floats = operand.dtype >= TENON_F16;  // indices and counts keep their values
      if (!operand.dims.empty() && floats) {
        const int64_t row = operand.dims[0] == 0 ? 0 : operand.count() / operand.dims[0] * width;
        for (int64_t i = 1; i < operand.dims[0]; ++i)
          std::memcpy(operand.bytes.data() + i * row, operand.bytes.data(),
                      static_cast<size_t>(row));
        stride[0] = 0;
      }
      array.dtype = operand.dtype;
      array.rank = static_cast<uint32_t>(operand.dims.size());
      array.data = operand.bytes.data();
      array.dims = operand.dims.data();
      array.strides_bytes = stride.data();
    }
    inputs.push_back(array);
  }
  Call call;
  Failure failure;
  std::vector<Array> expected;
  std::string why;
  if (!build_call(host, e.op, attributes, written, true, &call, &failure) ||
      !evaluate_graph(host, call.graph.get(), {}, &expected, &why))
    return pass();  // these values mean nothing to it
  return evaluate_on(host, e, call, inputs, expected, "arrays with strides of 0");
}

Outcome op_arrays(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      if (example.has_regions) continue;
      s.step("strided operands of " + printable(example.text, 300));
      CONFORM_TRY(strided_operands(plugin.host, example));
      CONFORM_TRY(repeated_operands(plugin.host, example));
    }
  }
  return pass();
}

Outcome op_threads(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  std::vector<Example> examples;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (Example& example : examples_of(plugin.host, op)) {
      std::vector<Array> found;
      std::string why;
      if (evaluate_graph(plugin.host, example.call.graph.get(), {}, &found, &why) &&
          examples.size() < 256)
        examples.push_back(std::move(example));
    }
  }
  for (const Example& example : examples)
    plugin.host.graph->freeze(plugin.host.graph->self, example.call.graph.get());
  s.step("inferring and evaluating in several threads");
  std::vector<Outcome> outcomes(kThreads);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (const Example& example : examples) {
          for (int round = 0; round < 8 && outcomes[t].verdict == Verdict::kPass; ++round) {
            std::vector<Array> found;
            std::string why;
            const std::string what = printable(example.text, 300);
            Example again;
            if (!read_example(plugin.host, example.op, example.text, &again, &why) ||
                !evaluate_graph(plugin.host, example.call.graph.get(), {}, &found, &why))
              outcomes[t] = failed("{} in one of several threads: {}", what, why);
            else
              outcomes[t] = compare_all(what, "result in one of several threads", *example.op,
                                        found, example.expected);
          }
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G25", "op-known-values", op_known_values},
    {"R-G26", "op-traits", op_traits},
    {"R-G27", "op-arrays", op_arrays},
    {"R-G28", "op-threads", op_threads},
};

}  // namespace

std::span<const Check> op_value_checks() {
  return kChecks;
}

}  // namespace tenon::conform
