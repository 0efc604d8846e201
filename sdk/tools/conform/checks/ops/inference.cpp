// Group G, ops: inference, repeated and with hostile questions.
#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/ops/op_call.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr int kHostileRounds = 150;

std::string answer(const HostTables& host, const tenon_op_def_t* op,
                   std::span<const tenon_attr_t> attributes, std::span<const Array> operands) {
  Call call;
  Failure why;
  if (!build_call(host, op, attributes, operands, false, &call, &why))
    return "refused: " + why.text;
  return type_of_results(host, call);
}

Outcome op_infer_function(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      std::vector<tenon_attr_t> attributes;
      if (example.has_regions || !portable_attributes(plugin.host, example, &attributes)) continue;
      s.step("inferring " + printable(example.text, 300));
      const std::string first = answer(plugin.host, op, attributes, example.operands);
      for (int round = 0; round < 3; ++round) {
        const std::string again = answer(plugin.host, op, attributes, example.operands);
        CONFORM_EXPECT(again == first, "{}: asked again, inference says {} after {}",
                       printable(example.text, 300), again, first);
      }
      Call constants;
      Failure why;
      std::vector<Array> found;
      std::string problem;
      if (!build_call(plugin.host, op, attributes, example.operands, true, &constants, &why) ||
          !evaluate_graph(plugin.host, constants.graph.get(), {}, &found, &problem))
        continue;  // G.op-examples reports it
      const tenon_node_view_t node = node_view(plugin.host, constants.graph.get(), constants.node);
      for (uint32_t r = 0; r < node.result_count && r < example.expected.size(); ++r) {
        const tenon_type_t type =
            value_view(plugin.host, constants.graph.get(), node.results[r]).type;
        const Array& e = example.expected[r];
        bool same = type.dtype == e.dtype && type.rank == e.dims.size();
        for (uint32_t d = 0; same && d < type.rank; ++d)
          same = type.dims[d] < 0 || type.dims[d] == e.dims[d];
        CONFORM_EXPECT(same, "{}: result {} is inferred as {}", printable(example.text, 300), r,
                       type_text(plugin.host, constants.graph.get(), type));
      }
    }
  }
  return pass();
}

// Hostile questions: any shapes and any attributes that the declaration admits.
class HostileQuestions {
 public:
  HostileQuestions(const tenon_op_def_t& op, const HostTables& host, uint64_t seed)
      : op_(op), host_(host), random_(seed) {}

  std::vector<Array> operands() {
    std::vector<Array> out;
    std::map<uint32_t, tenon_dtype_t> groups;
    for (uint32_t i = 0; i < op_.operand_count; ++i) {
      const tenon_operand_def_t& def = *tenon_op_operand(&op_, i);
      const bool variadic = (def.flags & TENON_OPERAND_VARIADIC) != 0;
      if ((def.flags & TENON_OPERAND_OPTIONAL) != 0 && below(2) == 0) {
        out.emplace_back();
        continue;
      }
      for (int64_t n = variadic ? below(4) : 1; n > 0; --n) out.push_back(operand(def, &groups));
    }
    return out;
  }

  std::vector<tenon_attr_t> attributes() {
    std::vector<tenon_attr_t> out;
    for (uint32_t i = 0; i < op_.attr_count; ++i) {
      const tenon_attr_def_t& def = *tenon_op_attr(&op_, i);
      if ((def.flags & TENON_ATTR_REQUIRED) == 0 && below(2) == 0) continue;
      tenon_attr_t a = {};
      a.name = host_.host->intern(host_.host->self, def.name);
      a.kind = def.kind;
      a.count = 1;
      if (value(def, &a)) out.push_back(a);
    }
    return out;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t number() {
    static constexpr int64_t kNumbers[] = {0,  1,  2,   3,    7,         -1,        -2,
                                           64, -9, 255, 1000, INT32_MAX, INT64_MAX, INT64_MIN};
    return kNumbers[below(std::size(kNumbers))];
  }
  Array operand(const tenon_operand_def_t& def, std::map<uint32_t, tenon_dtype_t>* groups) {
    auto dtype = static_cast<tenon_dtype_t>(1 + below(elements::kDtypeEnd - 1));
    for (int tries = 0; tries < 64 && (def.dtypes >> dtype & 1) == 0; ++tries)
      dtype = static_cast<tenon_dtype_t>(1 + below(elements::kDtypeEnd - 1));
    if (def.dtype_group != 0) dtype = groups->try_emplace(def.dtype_group, dtype).first->second;
    static constexpr int64_t kDims[] = {0, 1, 2, 3, 4, 8, 1, 2, 3, 1000, INT32_MAX, INT64_MAX};
    std::vector<int64_t> dims;
    const int64_t most = std::min<int64_t>(def.rank_max, below(8) == 0 ? TENON_RANK_MAX : 5);
    const int64_t rank = def.rank_min + (most > def.rank_min ? below(most - def.rank_min + 1) : 0);
    for (int64_t d = 0; d < rank; ++d)
      dims.push_back(kDims[below(below(4) == 0 ? std::size(kDims) : 6)]);
    return {dtype, std::move(dims), {}};
  }
  bool value(const tenon_attr_def_t& def, tenon_attr_t* a) {
    std::vector<int64_t>& numbers = numbers_.emplace_back();
    const int64_t count = below(6);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(below(3) == 0 ? number() : below(4));
    switch (def.kind) {
      case TENON_ATTR_I64:
        a->u.i = below(2) == 0 ? number() : below(4);
        return true;
      case TENON_ATTR_DTYPE:
        a->u.i = 1 + below(elements::kDtypeEnd - 1);
        return true;
      case TENON_ATTR_F64:
        a->u.f = below(4) == 0 ? std::numeric_limits<double>::quiet_NaN()
                               : static_cast<double>(number());
        return true;
      case TENON_ATTR_STRING: {
        const std::vector<std::string_view> choices = split(view(def.choices), '|');
        const std::string_view text =
            choices.empty()
                ? "\xff no word"
                : choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
        a->u.s = {text.data(), text.size()};
        return true;
      }
      case TENON_ATTR_I64S:
        a->count = numbers.size();
        a->u.is = numbers.data();
        return true;
      case TENON_ATTR_DIMS:
        for (int64_t& n : numbers) n = std::max<int64_t>(n, 0);
        a->count = numbers.size();
        a->u.dims = numbers.data();
        return true;
      case TENON_ATTR_F64S:
        doubles_.emplace_back(numbers.begin(), numbers.end());
        a->count = numbers.size();
        a->u.fs = doubles_.back().data();
        return true;
      default:
        return false;  // lists of texts, types and blobs are left out
    }
  }

  const tenon_op_def_t& op_;
  const HostTables& host_;
  std::mt19937_64 random_;
  std::deque<std::vector<int64_t>> numbers_;
  std::deque<std::vector<double>> doubles_;
};

std::string question_text(const tenon_op_def_t& op, const std::vector<Array>& operands) {
  std::string text;
  for (const Array& a : operands) {
    text += text.empty() ? "" : ", ";
    text += a.dtype == TENON_DTYPE_NONE ? "_" : std::string(dtype_name(a.dtype)) + "[";
    for (size_t d = 0; d < a.dims.size(); ++d)
      text += fmt::format("{}{}", d == 0 ? "" : ", ", a.dims[d]);
    text += a.dtype == TENON_DTYPE_NONE ? "" : "]";
  }
  return fmt::format("{}({})", name_of(op), text);
}

Outcome check_refusal(const tenon_op_def_t& op, const std::string& question, const Failure& why) {
  if (!why.constraint.empty()) {
    for (uint32_t i = 0; i < op.constraint_count; ++i) {
      if (view(op.constraints[i].label) == why.constraint) return pass();
    }
    return failed("{}: inference fails with the label {}, which {} does not declare", question,
                  quoted(why.constraint), name_of(op));
  }
  CONFORM_EXPECT(why.id != "T0002" && !why.text.empty(),
                 "{}: inference fails without a label and without a reason", question);
  CONFORM_EXPECT(why.code != TENON_INTERNAL, "{}: {}", question, why.text);
  return pass();
}

Outcome op_infer_hostile(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    HostileQuestions questions(*op, plugin.host, 1);
    for (int round = 0; round < kHostileRounds; ++round) {
      const std::vector<Array> operands = questions.operands();
      const std::vector<tenon_attr_t> attributes = questions.attributes();
      const std::string question = question_text(*op, operands);
      s.step("inferring " + question);
      Call call;
      Failure why;
      if (!build_call(plugin.host, op, attributes, operands, false, &call, &why)) {
        CONFORM_TRY(check_refusal(*op, question, why));
        continue;
      }
      const tenon_node_view_t node = node_view(plugin.host, call.graph.get(), call.node);
      for (uint32_t r = 0; r < node.result_count; ++r) {
        const tenon_type_t type = value_view(plugin.host, call.graph.get(), node.results[r]).type;
        CONFORM_EXPECT(type.kind != TENON_KIND_TENSOR || dtype_bits(type.dtype) != 0,
                       "{}: result {} has no element type", question, r);
        for (uint32_t d = 0; d < type.rank; ++d) {
          auto dim = sized<tenon_dim_view_t>();
          const auto& graph = *plugin.host.graph;
          CONFORM_EXPECT(
              graph.dim_view(graph.self, call.graph.get(), type.dims[d], &dim) == TENON_OK &&
                  (dim.op != TENON_DIM_CONSTANT || dim.constant >= 0),
              "{}: dim {} of result {} is {}", question, d, r, type.dims[d]);
        }
      }
    }
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G04", "op-infer-function", op_infer_function},
    {"R-G05", "op-infer-hostile", op_infer_hostile},
};

}  // namespace

std::span<const Check> op_inference_checks() {
  return kChecks;
}

}  // namespace tenon::conform
