// Changes of what an op declares: masks, roles of attributes, scalar programs of partial
// derivatives.
#include <bit>
#include <deque>

#include "changes.h"

namespace tenon::mutants {
namespace {

using Words = std::vector<uint32_t>;

std::string program_of(uint32_t i) {
  return cat("partial ", i);
}

void set_number(uint32_t* words, double to) {
  const uint64_t bits = std::bit_cast<uint64_t>(to);
  words[0] = static_cast<uint32_t>(bits);
  words[1] = static_cast<uint32_t>(bits >> 32);
}
double number(const uint32_t* words) {
  return std::bit_cast<double>(words[0] | static_cast<uint64_t>(words[1]) << 32);
}

// Another instruction in place of one; the same if there is none.
uint32_t other(const tenon_op_def_t& op, uint32_t word) {
  constexpr std::pair<uint32_t, uint32_t> kPairs[] = {
      {TENON_S_ADD, TENON_S_SUB}, {TENON_S_MUL, TENON_S_DIV},   {TENON_S_MAX, TENON_S_MIN},
      {TENON_S_AND, TENON_S_OR},  {TENON_S_EXP, TENON_S_EXPM1}, {TENON_S_LOG, TENON_S_LOG1P},
      {TENON_S_SIN, TENON_S_COS}, {TENON_S_SQRT, TENON_S_RSQRT}};
  const uint32_t code = word & 0xff, a = word >> 8;
  for (const auto& [x, y] : kPairs) {
    if (code == x) return TENON_SCALAR_WORD(y, a);
    if (code == y) return TENON_SCALAR_WORD(x, a);
  }
  if (code == TENON_S_CMP) return TENON_SCALAR_WORD(code, a ^ 1);  // LT and LE, GT and GE
  if (code == TENON_S_ARG && op.operand_count == 2) return TENON_SCALAR_WORD(code, 1 - a);
  if (code == TENON_S_ARG && a == 0) return TENON_SCALAR_WORD(TENON_S_RESULT, 0);
  if (code == TENON_S_RESULT && a == 0) return TENON_SCALAR_WORD(TENON_S_ARG, 0);
  return word;
}

// The places in a program that can be changed: "word 3", "number 4" and "negate". None in one that
// is 0: it says that derivatives stop.
void each_place(const tenon_op_def_t& op, const Words& words,
                const std::function<void(const std::string&, Words)>& visit) {
  if ((words[0] & 0xff) == TENON_S_CONST_F && number(&words[1]) == 0 && words.size() == 3) return;
  Words negated = words;
  negated.push_back(TENON_SCALAR_WORD(TENON_S_NEG, 0));
  visit("negate", negated);
  for (size_t i = 0; i < words.size(); ++i) {
    Words to = words;
    const uint32_t code = words[i] & 0xff;
    if (code == TENON_S_CONST_F) {
      const double now = number(&words[i + 1]);
      set_number(&to[i + 1], now == 0 ? -0.125 : now * -3);
    }
    if (code == TENON_S_CONST_F) visit(cat("number ", i), to);
    if (other(op, words[i]) != words[i]) {
      to[i] = other(op, words[i]);
      visit(cat("word ", i), to);
    }
    if (code == TENON_S_CONST_F || code == TENON_S_CONST_I) i += 2;
  }
}

void each_mask(const tenon_op_rules_t& rules,
               const std::function<void(const std::string&, uint32_t, uint32_t)>& visit) {
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t bit = 1u << i;
    if ((rules.linear & bit) != 0) {
      visit(cat("constant ", i), rules.linear & ~bit, rules.bilinear);
      // One that is linear alone is the same in both masks.
      if (rules.linear != bit) visit(cat("alone ", i), rules.linear & ~bit, rules.bilinear | bit);
    }
    if ((rules.bilinear & bit) == 0) continue;
    visit(cat("constant ", i), rules.linear, rules.bilinear & ~bit);
    if (rules.linear != 0) visit(cat("together ", i), rules.linear | bit, rules.bilinear & ~bit);
  }
}

Words words_of(const tenon_op_rules_t& rules, uint32_t i) {
  const tenon_partial_t& partial = *tenon_op_partial(&rules, i);
  return {partial.scalar, partial.scalar + partial.scalar_words};
}

// Programs and roles that are in force live until the process ends.
std::deque<Words> g_words;
std::deque<std::vector<tenon_partial_t>> g_partials;

void set_program(tenon_op_rules_t* rules, uint32_t i, const Words& words) {
  auto& partials = g_partials.emplace_back();
  for (uint32_t k = 0; k < rules->partial_count; ++k)
    partials.push_back(*tenon_op_partial(rules, k));
  const Words& kept = g_words.emplace_back(words);
  partials[i].scalar = kept.data();
  partials[i].scalar_words = static_cast<uint32_t>(kept.size());
  rules->partials = partials.data();
  rules->partial_bytes = sizeof(tenon_partial_t);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> declared_changes(const tenon_op_def_t& op) {
  std::vector<std::pair<std::string, std::string>> out;
  const tenon_op_rules_t& rules = *op.rules;
  each_mask(rules,
            [&](const std::string& what, uint32_t, uint32_t) { out.emplace_back("masks", what); });
  for (uint32_t i = 0; rules.roles != nullptr && i < op.attr_count; ++i) {
    if (rules.roles[i] != TENON_ROLE_OTHER)
      out.emplace_back("roles", view(tenon_op_attr(&op, i)->name));
  }
  for (uint32_t i = 0; i < rules.partial_count; ++i) {
    each_place(op, words_of(rules, i), [&](const std::string& what, const Words&) {
      out.emplace_back(program_of(i), what);
    });
  }
  return out;
}

bool change_declared(const tenon_op_def_t& op, const std::string& rule, const std::string& what,
                     tenon_op_rules_t* rules) {
  bool done = false;
  if (rule == "masks") {
    each_mask(*op.rules, [&](const std::string& name, uint32_t linear, uint32_t bilinear) {
      if (name == what) rules->linear = linear, rules->bilinear = bilinear, done = true;
    });
  }
  for (uint32_t i = 0; rule == "roles" && i < op.attr_count; ++i) {
    if (view(tenon_op_attr(&op, i)->name) != what) continue;
    Words& roles = g_words.emplace_back(op.rules->roles, op.rules->roles + op.attr_count);
    roles[i] = TENON_ROLE_OTHER;
    rules->roles = roles.data();
    done = true;
  }
  for (uint32_t i = 0; i < op.rules->partial_count; ++i) {
    if (rule != program_of(i)) continue;
    each_place(op, words_of(*op.rules, i), [&](const std::string& name, const Words& to) {
      if (name == what) set_program(rules, i, to), done = true;
    });
  }
  return done;
}

}  // namespace tenon::mutants
