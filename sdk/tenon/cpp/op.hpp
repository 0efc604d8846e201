// Declaring an op: one expression with every facet, which the compiler turns into a static
// tenon_op_def_t.
//
//     constexpr tenon::OpDraft relu() {
//       return tenon::op("relu", tenon::kCompositeElementwise)
//           .summary("max(x, 0), with NaN kept.")
//           .operand("x", "the input", tenon::kFloat)
//           .result("y", "same type as x")
//           .example("relu(f32[3] [-1, 0, 2]) -> f32[3] [0, 0, 2]")
//           .infer<tenon::infer_elementwise>()
//           .scalar(max(tenon::scalar::arg(0), 0))
//           .decompose_scalar();
//     }
//     constexpr auto& kOps = tenon::kOpPointers<relu>;
//
// kOps.data() and kOps.size() are the ops of a tenon_ops_t.
//
// A declaration with a missing facet does not compile. It needs a summary, operands (or attributes,
// for an op without operands), results, infer, an example, one of scalar, reference or decompose,
// and what the traits require. An example may be declined with a reason: .none_example("its result
// is random").
#ifndef TENON_CPP_OP_HPP_
#define TENON_CPP_OP_HPP_

#include <array>

#include "tenon/abi/ops.h"
#include "tenon/cpp/decompose.hpp"
#include "tenon/cpp/eval.hpp"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/infer.hpp"
#include "tenon/cpp/rules.hpp"
#include "tenon/cpp/scalar.hpp"

namespace tenon::inline sdk {

using InferFunction = Status (*)(const InferQuery& query);
using ValueOfFunction = Status (*)(const InferQuery& query, uint32_t result, tenon_dim_t* out_dims);
using ReferenceFunction = Status (*)(const Eval& eval);
// Ends with `return builder.finish(out, {results...})`.
using DecomposeFunction = Status (*)(Builder& builder, const Node& node,
                                     tenon_value_t* out_results);
// Returns the replacement of a one-result node, or an invalid value if there is nothing to do.
using FoldFunction = Value (*)(Builder& builder, const Node& node);

// Of an op that several processes compute together: the result of all of them from their operands,
// which have a new dim 0 with one entry for each process (tenon_op_def_t::stack).
using StackFunction = Value (*)(Builder& builder, const Node& node,
                                std::span<const Value> operands);

namespace detail {
template <InferFunction Function>
tenon_code_t run_infer(void*, const tenon_infer_t* query) noexcept {
  return guarded(context().host, [&] { return Function(InferQuery(query)); });
}
template <ValueOfFunction Function>
tenon_code_t run_value_of(void*, const tenon_infer_t* query, uint32_t result,
                          tenon_dim_t* out) noexcept {
  return guarded(context().host, [&] { return Function(InferQuery(query), result, out); });
}
template <ReferenceFunction Function>
tenon_code_t run_reference(void*, const tenon_eval_t* eval) noexcept {
  return guarded(context().host, [&] { return Function(Eval(eval)); });
}
template <DecomposeFunction Function>
tenon_code_t run_decompose(void*, const tenon_builder_t* at, tenon_node_t node,
                           tenon_value_t* out) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    return Function(builder, Node(at->graph, node), out);
  });
}
template <StackFunction Function>
tenon_code_t run_stack(void*, const tenon_builder_t* at, tenon_node_t id,
                       const tenon_value_t* operands, tenon_value_t* out) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    const Node node(at->graph, id);
    const auto given = values_of(at->graph, operands, node.operand_count());
    return give_values(builder, {Function(builder, node, given)}, 1, out);
  });
}
template <FoldFunction Function>
tenon_code_t run_fold(void*, const tenon_builder_t* at, tenon_node_t node, tenon_value_t* out,
                      uint32_t* out_matched) noexcept {
  return guarded(context().host, [&]() -> Status {
    Builder builder(*at);
    *out_matched = 0;
    const Value replacement = Function(builder, Node(at->graph, node));
    TENON_TRY(builder.status());
    if (replacement.valid()) {
      *out = replacement.id();
      *out_matched = 1;
    }
    return {};
  });
}

// Deliberately not constexpr: reaching it while compiling a declaration stops the compiler, which
// shows the text.
inline void declaration_error(const char*) {}
}  // namespace detail

inline constexpr uint64_t kPure = TENON_TRAIT_PURE;
inline constexpr uint64_t kPrimitive = TENON_TRAIT_PURE | TENON_TRAIT_PRIMITIVE;
inline constexpr uint64_t kElementwise = TENON_TRAIT_PURE | TENON_TRAIT_ELEMENTWISE;
inline constexpr uint64_t kPrimitiveElementwise = kElementwise | TENON_TRAIT_PRIMITIVE;
inline constexpr uint64_t kComposite = TENON_TRAIT_PURE | TENON_TRAIT_COMPOSITE;
inline constexpr uint64_t kCompositeElementwise = kElementwise | TENON_TRAIT_COMPOSITE;

// A declaration under construction. The bounds are generous; a longer list does not compile.
struct OpDraft {
  tenon_op_def_t def = {};
  std::array<tenon_operand_def_t, 8> operands = {};
  std::array<tenon_result_def_t, 4> results = {};
  std::array<tenon_attr_def_t, 20> attrs = {};
  std::array<tenon_constraint_def_t, 16> constraints = {};
  std::array<tenon_str_t, 8> examples = {};
  std::array<tenon_foreign_name_t, 6> foreign_names = {};
  scalar::Expr program;
  RulesDraft derivative;
  bool examples_declined = false;
  bool decompose_by_scalar = false;

  constexpr OpDraft(std::string_view name, uint64_t traits, uint32_t version) {
    def.size_bytes = sizeof def;
    def.version = version;
    def.since = TENON_ABI_MINOR;
    def.name = str(name);
    def.traits = traits;
    def.cost_class = TENON_COST_ELEMENTWISE;
  }

  // ---- Words ----
  constexpr OpDraft& summary(std::string_view text) { return def.summary = str(text), *this; }
  constexpr OpDraft& doc(std::string_view text) { return def.doc = str(text), *this; }
  constexpr OpDraft& example(std::string_view expression) {
    examples[def.example_count++] = str(expression);
    return *this;
  }
  // What files of a format call the op: foreign_name("onnx", "com.acme", "MovingAverage").
  constexpr OpDraft& foreign_name(std::string_view format, std::string_view domain,
                                  std::string_view name, uint32_t since = 1) {
    foreign_names[def.foreign_name_count++] = {str(format), str(domain), str(name), since, 0};
    return *this;
  }
  // What people may call it: for suggestions only.
  constexpr OpDraft& alias(std::string_view name) {
    return foreign_name(TENON_FOREIGN_ALIAS, "", name);
  }
  constexpr OpDraft& none_example(std::string_view) { return examples_declined = true, *this; }

  // ---- Schema ----
  constexpr OpDraft& operand(std::string_view name, std::string_view doc, tenon_dtypes_t dtypes,
                             uint32_t group = 0, uint32_t rank_min = 0,
                             uint32_t rank_max = TENON_RANK_MAX) {
    operands[def.operand_count++] = {str(name), str(doc), dtypes, 0, group, rank_min, rank_max};
    return *this;
  }
  constexpr OpDraft& optional(std::string_view name, std::string_view doc, tenon_dtypes_t dtypes,
                              uint32_t group = 0, uint32_t rank_min = 0,
                              uint32_t rank_max = TENON_RANK_MAX) {
    operands[def.operand_count++] = {str(name), str(doc), dtypes,  TENON_OPERAND_OPTIONAL,
                                     group,     rank_min, rank_max};
    return *this;
  }
  constexpr OpDraft& variadic(std::string_view name, std::string_view doc, tenon_dtypes_t dtypes,
                              uint32_t group = 0, uint32_t rank_min = 0) {
    operands[def.operand_count++] = {str(name), str(doc), dtypes,        TENON_OPERAND_VARIADIC,
                                     group,     rank_min, TENON_RANK_MAX};
    return *this;
  }
  constexpr OpDraft& result(std::string_view name, std::string_view doc) {
    results[def.result_count++] = {str(name), str(doc)};
    return *this;
  }
  constexpr OpDraft& attr_i64(std::string_view name, std::string_view doc, int64_t otherwise) {
    return attr({str(name), str(doc), TENON_ATTR_I64, 0, otherwise, 0, {}, {}});
  }
  constexpr OpDraft& attr_f64(std::string_view name, std::string_view doc, double otherwise) {
    return attr({str(name), str(doc), TENON_ATTR_F64, 0, 0, otherwise, {}, {}});
  }
  constexpr OpDraft& attr_string(std::string_view name, std::string_view doc,
                                 std::string_view otherwise, std::string_view choices) {
    return attr({str(name), str(doc), TENON_ATTR_STRING, 0, 0, 0, str(otherwise), str(choices)});
  }
  // An element type; the doc says what `otherwise` NONE means.
  constexpr OpDraft& attr_dtype(std::string_view name, std::string_view doc,
                                tenon_dtype_t otherwise = TENON_DTYPE_NONE) {
    return attr({str(name), str(doc), TENON_ATTR_DTYPE, 0, otherwise, 0, {}, {}});
  }
  constexpr OpDraft& attr_i64s(std::string_view name, std::string_view doc) {
    return attr({str(name), str(doc), TENON_ATTR_I64S, 0, 0, 0, {}, {}});
  }
  constexpr OpDraft& attr_f64s(std::string_view name, std::string_view doc) {
    return attr({str(name), str(doc), TENON_ATTR_F64S, 0, 0, 0, {}, {}});
  }
  constexpr OpDraft& attr_dims(std::string_view name, std::string_view doc) {
    return attr({str(name), str(doc), TENON_ATTR_DIMS, 0, 0, 0, {}, {}});
  }
  // Makes the last declared attribute required.
  constexpr OpDraft& required() {
    attrs[def.attr_count - 1].flags |= TENON_ATTR_REQUIRED;
    return *this;
  }
  constexpr OpDraft& attr(const tenon_attr_def_t& declared) {
    attrs[def.attr_count++] = declared;
    return *this;
  }
  constexpr OpDraft& constraint(std::string_view label, std::string_view text,
                                std::string_view negative) {
    constraints[def.constraint_count++] = {str(label), str(text), str(negative)};
    return *this;
  }

  // ---- Meaning ----
  template <InferFunction Function>
  constexpr OpDraft& infer() {
    def.infer = &detail::run_infer<Function>;
    return *this;
  }
  template <ValueOfFunction Function>
  constexpr OpDraft& value_of() {
    def.value_of = &detail::run_value_of<Function>;
    return *this;
  }
  constexpr OpDraft& scalar(const tenon::scalar::Expr& expression) {
    program = expression;
    return *this;
  }
  template <ReferenceFunction Function>
  constexpr OpDraft& reference() {
    def.reference = &detail::run_reference<Function>;
    return *this;
  }
  template <DecomposeFunction Function>
  constexpr OpDraft& decompose() {
    def.decompose = &detail::run_decompose<Function>;
    return *this;
  }
  // The same for nodes with a complex operand or result, over real and imaginary parts. `by_parts`
  // fits every op that moves elements, and every linear one.
  template <DecomposeFunction Function>
  constexpr OpDraft& decompose_complex() {
    def.decompose_complex = &detail::run_decompose<Function>;
    return *this;
  }
  // The decomposition is the scalar program, one node per instruction.
  constexpr OpDraft& decompose_scalar() { return decompose_by_scalar = true, *this; }
  template <FoldFunction Function>
  constexpr OpDraft& fold() {
    def.fold = &detail::run_fold<Function>;
    return *this;
  }

  template <StackFunction Function>
  constexpr OpDraft& stack() {
    def.stack = &detail::run_stack<Function>;
    return *this;
  }

  // ---- Derivatives and batches (rules.hpp) ----
  // The results are linear in these operands together; `transposed` gives the cotangents.
  constexpr OpDraft& linear(std::initializer_list<uint32_t> list) {
    return rules().linear = RulesDraft::mask(list), *this;
  }
  // The results are linear in each of these operands alone.
  constexpr OpDraft& bilinear(std::initializer_list<uint32_t> list) {
    return rules().bilinear = RulesDraft::mask(list), *this;
  }
  template <TransposeFunction Function>
  constexpr OpDraft& transposed() {
    return rules().transpose = &detail::run_transpose<Function>, *this;
  }
  template <JvpFunction Function>
  constexpr OpDraft& jvp() {
    return rules().jvp = &detail::run_jvp<Function>, *this;
  }
  template <PullFunction Function>
  constexpr OpDraft& pull() {
    return rules().pull = &detail::run_pull<Function>, *this;
  }
  // The derivative of an element-wise op by an operand; may use scalar::result().
  constexpr OpDraft& partial(uint32_t operand, const tenon::scalar::Expr& expression) {
    derivative.partials[rules().partial_count++] = {operand, expression};
    return *this;
  }
  // Why there is none; the text completes "it has no derivative: ".
  constexpr OpDraft& no_derivative(std::string_view why) {
    return rules().no_derivative = str(why), *this;
  }
  // These operands may get a new dim 0; the attributes change by their roles.
  constexpr OpDraft& batched(std::initializer_list<uint32_t> list) {
    return rules().batched = RulesDraft::mask(list), *this;
  }
  template <BatchFunction Function>
  constexpr OpDraft& batch() {
    return rules().batch = &detail::run_batch<Function>, *this;
  }
  // The role of the last declared attribute: TENON_ROLE_*. neutral: the entry of PER_DIM that
  // changes nothing.
  constexpr OpDraft& role(uint32_t role, int64_t neutral = 0) {
    (void)rules();
    if (role == TENON_ROLE_PER_DIM) attrs[def.attr_count - 1].default_i = neutral;
    return derivative.roles[def.attr_count - 1] = role, *this;
  }
  constexpr tenon_op_rules_t& rules() {
    derivative.any = true;
    return derivative.rules;
  }

  // ---- Properties ----
  constexpr OpDraft& cost(uint32_t cost_class) { return def.cost_class = cost_class, *this; }
  constexpr OpDraft& tolerance(double factor) { return def.tolerance = factor, *this; }
  // The largest error of a result in units in the last place, in f32 and in f64
  // (tenon_op_def_t::ulp_f32).
  constexpr OpDraft& accuracy(double f32, double f64, uint32_t of = TENON_ULP_OF_RESULT) {
    def.ulp_f32 = f32;
    def.ulp_f64 = f64;
    def.ulp_of = of;
    return *this;
  }
  constexpr OpDraft& traits(uint64_t more) { return def.traits |= more, *this; }

  // The scalar program reads only declared operands.
  constexpr bool reads_operands() const {
    for (uint32_t at = 0; at < program.count;) {
      const uint32_t op = program.words[at] & 255, operand = program.words[at] >> 8;
      if ((op == TENON_S_ARG || op == TENON_S_WORK) && operand >= def.operand_count) return false;
      at += op == TENON_S_CONST_F || op == TENON_S_CONST_I ? 3 : 1;
    }
    return true;
  }

  // Every facet is present or declined.
  constexpr bool complete() const {
    if (def.result_count == 0) detail::declaration_error("the op has no result");
    if (def.operand_count == 0 && def.attr_count == 0)
      detail::declaration_error("the op has no operand and no attribute");
    if (!reads_operands())
      detail::declaration_error("the scalar program reads an operand that is not declared");
    if (def.summary.size == 0) detail::declaration_error("the op has no summary");
    if (def.infer == nullptr) detail::declaration_error("the op has no infer");
    if (def.example_count == 0 && !examples_declined)
      detail::declaration_error("the op has no example");
    if (program.count == 0 && def.reference == nullptr && def.decompose == nullptr) {
      detail::declaration_error("the op has no meaning: give scalar, reference or decompose");
    }
    if ((def.traits & TENON_TRAIT_ELEMENTWISE) != 0 && program.count == 0) {
      detail::declaration_error("an element-wise op needs a scalar program");
    }
    if ((def.traits & TENON_TRAIT_COMPOSITE) != 0 && def.decompose == nullptr &&
        !decompose_by_scalar) {
      detail::declaration_error("a composite op needs a decomposition");
    }
    const tenon_op_rules_t& rules = derivative.rules;
    if ((rules.linear != 0 || rules.bilinear != 0) != (rules.transpose != nullptr))
      detail::declaration_error("linear operands and `transposed` go together");
    for (uint32_t i = 0; i < def.constraint_count; ++i) {
      if (constraints[i].negative.size == 0)
        detail::declaration_error("a constraint has no negative");
    }
    return true;
  }
};

// Starts a declaration. `version` is the version of the meaning.
constexpr OpDraft op(std::string_view name, uint64_t traits, uint32_t version = 1) {
  return OpDraft(name, traits, version);
}

namespace detail {
template <size_t Count, class T, size_t Bound>
constexpr std::array<T, Count> first(const std::array<T, Bound>& from) {
  std::array<T, Count> out = {};
  for (size_t i = 0; i < Count; ++i) out[i] = from[i];
  return out;
}

// Static storage of one declaration, cut to its size.
template <auto Declare>
struct OpStorage {
  static constexpr OpDraft kDraft = Declare();
  static_assert(kDraft.complete());
  static constexpr auto operands = first<kDraft.def.operand_count>(kDraft.operands);
  static constexpr auto results = first<kDraft.def.result_count>(kDraft.results);
  static constexpr auto attrs = first<kDraft.def.attr_count>(kDraft.attrs);
  static constexpr auto constraints = first<kDraft.def.constraint_count>(kDraft.constraints);
  static constexpr auto examples = first<kDraft.def.example_count>(kDraft.examples);
  static constexpr auto foreign_names = first<kDraft.def.foreign_name_count>(kDraft.foreign_names);
  static constexpr auto words = [] {
    std::array<uint32_t, kDraft.program.count> out = {};
    for (size_t i = 0; i < out.size(); ++i) out[i] = kDraft.program.words[i];
    return out;
  }();
  static tenon_code_t decompose(void*, const tenon_builder_t* at, tenon_node_t node,
                                tenon_value_t* out) noexcept {
    return guarded(context().host, [&] {
      Builder builder(*at);
      return decompose_program(builder, Node(at->graph, node), kDef, words, out);
    });
  }
  template <size_t Index>
  static constexpr auto partial_words = [] {
    constexpr const scalar::Expr& program = kDraft.derivative.partials[Index].program;
    std::array<uint32_t, program.count> out = {};
    for (size_t i = 0; i < out.size(); ++i) out[i] = program.words[i];
    return out;
  }();
  static constexpr auto partials = []<size_t... Index>(std::index_sequence<Index...>) {
    return std::array<tenon_partial_t, sizeof...(Index)>{tenon_partial_t{
        kDraft.derivative.partials[Index].operand,
        static_cast<uint32_t>(partial_words<Index>.size()), partial_words<Index>.data()}...};
  }(std::make_index_sequence<kDraft.derivative.rules.partial_count>());
  static constexpr auto roles = first<kDraft.def.attr_count>(kDraft.derivative.roles);
  static constexpr tenon_op_rules_t make_rules() {
    tenon_op_rules_t out = kDraft.derivative.rules;
    out.size_bytes = sizeof out;
    out.partials = partials.data();
    out.partial_bytes = sizeof(tenon_partial_t);
    out.roles = roles.empty() ? nullptr : roles.data();
    return out;
  }
  static constexpr tenon_op_rules_t kRules = make_rules();
  static constexpr tenon_op_def_t make() {
    tenon_op_def_t def = kDraft.def;
    def.operands = operands.data();
    def.results = results.data();
    def.attrs = attrs.data();
    def.constraints = constraints.data();
    def.examples = examples.data();
    def.foreign_names = foreign_names.data();
    def.operand_bytes = sizeof(tenon_operand_def_t);
    def.result_bytes = sizeof(tenon_result_def_t);
    def.attr_bytes = sizeof(tenon_attr_def_t);
    def.constraint_bytes = sizeof(tenon_constraint_def_t);
    def.foreign_name_bytes = sizeof(tenon_foreign_name_t);
    def.scalar = words.empty() ? nullptr : words.data();
    def.scalar_words = static_cast<uint32_t>(words.size());
    if (kDraft.decompose_by_scalar) def.decompose = &decompose;
    if (kDraft.derivative.any) def.rules = &kRules;
    return def;
  }
  static constexpr tenon_op_def_t kDef = make();
};
}  // namespace detail

// The ops of one file.
struct OpList {
  const tenon_op_def_t* const* ops;
  size_t count;
};

template <auto... Declare>
inline constexpr std::array<const tenon_op_def_t*, sizeof...(Declare)> kOpPointers = {
    &detail::OpStorage<Declare>::kDef...};

}  // namespace tenon::inline sdk

// Publishes the ops of a file under the file's name: the build makes the plugin's table from the
// names of its files. `...` are the constexpr functions that declare the ops.
#define TENON_OPS(file, ...)                              \
  extern "C" const ::tenon::OpList tenon_ops_of_##file;   \
  constinit const ::tenon::OpList tenon_ops_of_##file = { \
      ::tenon::kOpPointers<__VA_ARGS__>.data(), ::tenon::kOpPointers<__VA_ARGS__>.size()};

#endif
