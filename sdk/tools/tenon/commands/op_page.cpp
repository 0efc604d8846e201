#include "sdk/tools/tenon/commands/op_page.h"

#include <fmt/core.h>

#include <vector>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

struct Trait {
  uint64_t bit;
  const char* name;
};
constexpr Trait kTraits[] = {{TENON_TRAIT_PRIMITIVE, "primitive"},
                             {TENON_TRAIT_COMPOSITE, "composite"},
                             {TENON_TRAIT_PURE, "pure"},
                             {TENON_TRAIT_ELEMENTWISE, "element-wise"},
                             {TENON_TRAIT_COMMUTATIVE, "commutative"},
                             {TENON_TRAIT_IDEMPOTENT, "idempotent"},
                             {TENON_TRAIT_SHAPE_ONLY, "shape-only"},
                             {TENON_TRAIT_DEFINES_SYMBOL, "defines a symbol"},
                             {TENON_TRAIT_ORDERED, "ordered"},
                             {TENON_TRAIT_NO_RECOMPUTE, "never recomputed"},
                             {TENON_TRAIT_AMBIGUOUS, "one of several right results"},
                             {TENON_TRAIT_HOLOMORPHIC, "holomorphic"}};

std::string traits_text(uint64_t traits) {
  std::string text;
  for (const Trait& trait : kTraits) {
    if ((traits & trait.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(trait.name);
  }
  return text;
}

// "f16 bf16 f32 f64", or "any".
std::string dtypes_text(tenon_dtypes_t set) {
  if (set == TENON_DTYPES_ANY) return "any";
  std::string text;
  for (tenon_dtype_t d = 1; d < elements::kDtypeEnd; ++d) {
    if (is_in(d, set)) text += (text.empty() ? "" : " ") + std::string(dtype_name(d));
  }
  return text;
}

std::string rank_text(const tenon_operand_def_t& operand) {
  if (operand.rank_min == operand.rank_max) return fmt::format("{}", operand.rank_min);
  if (operand.rank_max >= TENON_RANK_MAX)
    return operand.rank_min == 0 ? "any" : fmt::format("{}+", operand.rank_min);
  return fmt::format("{}-{}", operand.rank_min, operand.rank_max);
}

const char* kind_text(uint32_t kind) {
  constexpr const char* kNames[] = {"?",         "i64",      "f64",         "string",
                                    "i64 list",  "f64 list", "string list", "dims",
                                    "type list", "blob",     "dtype"};
  return kind < std::size(kNames) ? kNames[kind] : "?";
}

std::string default_text(const tenon_attr_def_t& attr) {
  if ((attr.flags & TENON_ATTR_REQUIRED) != 0) return "required";
  switch (attr.kind) {
    case TENON_ATTR_I64:
      return fmt::format("{}", attr.default_i);
    case TENON_ATTR_F64:
      return fmt::format("{}", attr.default_f);
    case TENON_ATTR_STRING:
      return fmt::format("\"{}\"", view(attr.default_s));
    case TENON_ATTR_DTYPE:
      return std::string(dtype_name(static_cast<tenon_dtype_t>(attr.default_i)));
    default:
      return "empty";
  }
}

std::string operand_notes(const tenon_operand_def_t& operand) {
  std::string text(view(operand.doc));
  if ((operand.flags & TENON_OPERAND_OPTIONAL) != 0) text += " (optional)";
  if ((operand.flags & TENON_OPERAND_VARIADIC) != 0) text += " (any number)";
  return text;
}

// A table cell: a bar inside must not end it.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return result;
}

using Rows = std::vector<std::vector<std::string>>;
std::string table(const std::vector<const char*>& head, const Rows& rows) {
  if (rows.empty()) return "";
  std::string text = "\n|";
  for (const char* name : head) text += fmt::format(" {} |", name);
  text += "\n|";
  for (size_t i = 0; i < head.size(); ++i) text += "---|";
  text += '\n';
  for (const auto& row : rows) {
    text += '|';
    for (const auto& value : row) text += fmt::format(" {} |", cell(value));
    text += '\n';
  }
  return text;
}

Rows operand_rows(const tenon_op_def_t& op) {
  Rows rows;
  for (uint32_t i = 0; i < op.operand_count; ++i) {
    const tenon_operand_def_t& operand = *tenon_op_operand(&op, i);
    rows.push_back({std::string(view(operand.name)), dtypes_text(operand.dtypes),
                    rank_text(operand), operand_notes(operand)});
  }
  return rows;
}
Rows attr_rows(const tenon_op_def_t& op) {
  Rows rows;
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const tenon_attr_def_t& attr = *tenon_op_attr(&op, i);
    std::string doc(view(attr.doc));
    if (attr.choices.size > 0) doc += fmt::format(" One of: {}.", view(attr.choices));
    rows.push_back({std::string(view(attr.name)), kind_text(attr.kind), default_text(attr), doc});
  }
  return rows;
}

const char* mark(bool there) {
  return there ? "yes" : "";
}

std::string meaning_text(const tenon_op_def_t& op) {
  if (op.reference != nullptr) return "reference";
  if (op.scalar_words > 0) return "scalar program";
  return op.decompose != nullptr ? "decomposition" : "none";
}

const char* ulp_of_text(const tenon_op_def_t& op) {
  return op.ulp_of == TENON_ULP_OF_OPERANDS ? "the largest of result and operands"
         : op.ulp_of == TENON_ULP_OF_ONE    ? "the larger of result and 1"
                                            : "the result";
}

// "f32 within 2 ulp, f64 within 3 ulp of the result"; empty if none is stated.
std::string accuracy_text(const tenon_op_def_t& op) {
  if (op.ulp_f32 == 0) return "";
  return fmt::format("f32 within {} ulp, f64 within {} ulp of {}", op.ulp_f32, op.ulp_f64,
                     ulp_of_text(op));
}

// The operands in a mask of the rules, by name: "x, y".
std::string operands_text(const tenon_op_def_t& op, uint32_t mask) {
  std::string text;
  for (uint32_t i = 0; i < op.operand_count; ++i) {
    if ((mask >> i & 1) != 0)
      text += (text.empty() ? "" : ", ") + std::string(view(tenon_op_operand(&op, i)->name));
  }
  return text;
}

// The passes of derivatives and batches know these: their declarations need no rules.
bool is_control_flow(const tenon_op_def_t& op) {
  return view(op.name) == "scan" || view(op.name) == "while" || view(op.name) == "switch";
}

// How it differentiates: the words for "Derivative: ...".
std::string derivative_text(const tenon_op_def_t& op) {
  if (is_control_flow(op)) return "that of its regions, in both modes";
  const tenon_op_rules_t* rules = op.rules;
  if (rules != nullptr && rules->no_derivative.size > 0)
    return fmt::format("none, {}", view(rules->no_derivative));
  std::string text;
  const auto add = [&](std::string_view more) {
    text += (text.empty() ? "" : "; ") + std::string(more);
  };
  if (rules != nullptr) {
    if (rules->linear != 0) add("linear in " + operands_text(op, rules->linear));
    if (rules->bilinear != 0) add("linear in each of " + operands_text(op, rules->bilinear));
    if (rules->jvp != nullptr && op.scalar_words == 0) add("a rule for tangents");
    if (rules->pull != nullptr) add("a rule for cotangents");
    for (uint32_t i = 0; i < rules->partial_count; ++i) {
      const uint32_t operand = tenon_op_partial(rules, i)->operand;
      add(fmt::format("a formula for that by {}", view(tenon_op_operand(&op, operand)->name)));
    }
  }
  if (text.empty() && op.scalar_words > 0) add("from its scalar program");
  if (op.scalar_words > 0 && rules != nullptr && rules->jvp != nullptr)
    add("of complex numbers a rule for tangents");
  if (text.empty()) return op.decompose != nullptr ? "that of its decomposition" : "none";
  return text;
}

// How several samples pass through it: the words for "Samples: ...".
std::string samples_text(const tenon_op_def_t& op) {
  const tenon_op_rules_t* rules = op.rules;
  if ((op.traits & TENON_TRAIT_ELEMENTWISE) != 0) return "element by element";
  if (rules != nullptr && rules->batch != nullptr) return "a rule of its own";
  if (rules != nullptr && rules->batched != 0)
    return "as a new first dim of " + operands_text(op, rules->batched);
  if (is_control_flow(op)) return "through its regions";
  return op.decompose != nullptr ? "as those of its decomposition" : "one after another";
}

}  // namespace

std::string op_signature(const tenon_op_def_t& op) {
  std::string text = std::string(view(op.name)) + "(";
  for (uint32_t i = 0; i < op.operand_count; ++i) {
    const tenon_operand_def_t& operand = *tenon_op_operand(&op, i);
    text += (i == 0 ? "" : ", ") + std::string(view(operand.name));
    if ((operand.flags & TENON_OPERAND_OPTIONAL) != 0) text += '?';
    if ((operand.flags & TENON_OPERAND_VARIADIC) != 0) text += "...";
  }
  text += ')';
  for (uint32_t i = 0; i < op.attr_count; ++i)
    text += (i == 0 ? " {" : ", ") + std::string(view(op.attrs[i].name));
  if (op.attr_count > 0) text += '}';
  for (uint32_t i = 0; i < op.result_count; ++i)
    text += (i == 0 ? " -> " : ", ") + std::string(view(op.results[i].name));
  return text;
}

std::string op_markdown(const tenon_op_def_t& op) {
  std::string text = fmt::format("# {}\n\n{}\n\n```\n{}\n```\n", view(op.name), view(op.summary),
                                 op_signature(op));
  if (op.doc.size > 0) text += fmt::format("\n{}\n", view(op.doc));
  text += table({"operand", "element types", "rank", ""}, operand_rows(op));
  text += table({"attribute", "kind", "default", ""}, attr_rows(op));
  Rows results;
  for (uint32_t i = 0; i < op.result_count; ++i) {
    results.push_back(
        {std::string(view(op.results[i].name)), std::string(view(op.results[i].doc))});
  }
  text += table({"result", ""}, results);
  if (op.constraint_count > 0) text += "\nConstraints:\n\n";
  for (uint32_t i = 0; i < op.constraint_count; ++i) {
    text +=
        fmt::format("- **{}**: {}\n", view(op.constraints[i].label), view(op.constraints[i].text));
  }
  if (op.example_count > 0) text += "\n```\n";
  for (uint32_t i = 0; i < op.example_count; ++i) text += fmt::format("{}\n", view(op.examples[i]));
  if (op.example_count > 0) text += "```\n";
  text += fmt::format("\nDerivative: {}. Samples: {}.\n", derivative_text(op), samples_text(op));
  text += fmt::format("\nVersion {}. Traits: {}. Meaning by: {}.{}\n", op.version,
                      traits_text(op.traits), meaning_text(op),
                      op.ulp_f32 == 0 ? "" : fmt::format(" Accuracy: {}.", accuracy_text(op)));
  return text;
}

std::string op_text(const tenon_op_def_t& op, std::string_view plugin) {
  std::string text = fmt::format("{}\n  {}\n", op_signature(op), view(op.summary));
  if (op.doc.size > 0) text += fmt::format("\n{}\n", view(op.doc));
  const auto section = [&](const char* title, const Rows& rows) {
    if (!rows.empty()) text += fmt::format("\n{}\n", title);
    for (const auto& row : rows)
      text += fmt::format("  {:<12} {:<10} {:<8} {}\n", row[0], row[1], row[2], row[3]);
  };
  section("operands: element types, rank", operand_rows(op));
  section("attributes: kind, default", attr_rows(op));
  if (op.constraint_count > 0) text += "\nconstraints\n";
  for (uint32_t i = 0; i < op.constraint_count; ++i) {
    text += fmt::format("  {}: {}\n", view(op.constraints[i].label), view(op.constraints[i].text));
  }
  if (op.example_count > 0) text += "\nexamples\n";
  for (uint32_t i = 0; i < op.example_count; ++i)
    text += fmt::format("  {}\n", view(op.examples[i]));
  if (op.ulp_f32 != 0) text += fmt::format("\naccuracy: {}\n", accuracy_text(op));
  text += fmt::format("\nderivative: {}; samples: {}\n", derivative_text(op), samples_text(op));
  return text + fmt::format("\nversion {}, {}; meaning by {}; from the plugin {}\n", op.version,
                            traits_text(op.traits), meaning_text(op), plugin);
}

std::string coverage_head() {
  return "| op | summary | scalar | reference | decomposition | fold | value_of | examples | "
         "constraints |\n"
         "|---|---|---|---|---|---|---|---|---|\n";
}
std::string coverage_row(const tenon_op_def_t& op) {
  return fmt::format("| [{}]({}.md) | {} | {} | {} | {} | {} | {} | {} | {} |\n", view(op.name),
                     view(op.name), cell(view(op.summary)), mark(op.scalar_words > 0),
                     mark(op.reference != nullptr), mark(op.decompose != nullptr),
                     mark(op.fold != nullptr || op.rewrite_count > 0), mark(op.value_of != nullptr),
                     op.example_count, op.constraint_count);
}

}  // namespace tenon::tools
