// Random dim expressions, evaluated independently of the table, for the tests of the algebra.
#pragma once
#include <optional>
#include <random>
#include <vector>

#include "core/ir/dims/dims.h"
#include "core/ir/dims/dims_internal.h"

namespace tenon::ir {

// A random expression, evaluated independently of the table.
struct Tree {
  uint32_t op = TENON_DIM_CONSTANT;
  int64_t constant = 0;
  Symbol symbol = 0;
  std::vector<Tree> args;

  bool evaluate(const std::vector<int64_t>& values, int64_t* out) const {
    int64_t a, b;
    if (op == TENON_DIM_CONSTANT) return *out = constant, true;
    if (op == TENON_DIM_SYMBOL) return *out = values[symbol], true;
    if (!args[0].evaluate(values, &a) || !args[1].evaluate(values, &b)) return false;
    switch (op) {
      case TENON_DIM_ADD:
        *out = a + b;
        return true;
      case TENON_DIM_SUB:
        *out = a - b;
        return true;
      case TENON_DIM_MUL:
        *out = a * b;
        return true;
      case TENON_DIM_MIN:
        *out = std::min(a, b);
        return true;
      case TENON_DIM_MAX:
        *out = std::max(a, b);
        return true;
      default:
        if (b <= 0) return false;
        *out = op == TENON_DIM_FLOORDIV ? floor_div(a, b) : floor_mod(a, b);
        return true;
    }
  }

  // Empty if the table refuses the expression.
  std::optional<Dim> build(DimTable& t) const {
    if (op == TENON_DIM_CONSTANT) return *t.constant(constant);
    if (op == TENON_DIM_SYMBOL) return t.symbol(symbol).dim;
    const auto a = args[0].build(t), b = args[1].build(t);
    if (!a || !b) return {};
    const Result<Dim> made = t.make(op, *a, *b);
    return made.ok() ? std::optional<Dim>(*made) : std::nullopt;
  }
};

inline Tree random_tree(std::mt19937& rng, int depth, uint32_t symbols = 3) {
  Tree t;
  const uint32_t pick = rng() % 10;
  if (depth == 0 || pick < 2) {
    t.op = rng() % 2 ? TENON_DIM_SYMBOL : TENON_DIM_CONSTANT;
    t.constant = static_cast<int64_t>(rng() % 9) - 2;
    t.symbol = rng() % symbols;
    return t;
  }
  static constexpr uint32_t kOps[] = {TENON_DIM_ADD,      TENON_DIM_SUB, TENON_DIM_MUL,
                                      TENON_DIM_FLOORDIV, TENON_DIM_MOD, TENON_DIM_MIN,
                                      TENON_DIM_MAX,      TENON_DIM_ADD};
  t.op = kOps[rng() % 8];
  t.args = {random_tree(rng, depth - 1, symbols), random_tree(rng, depth - 1, symbols)};
  if ((t.op == TENON_DIM_FLOORDIV || t.op == TENON_DIM_MOD) && rng() % 4) {
    t.args[1] = Tree{TENON_DIM_CONSTANT, static_cast<int64_t>(rng() % 6) + 1, 0, {}};
  }
  return t;
}

}  // namespace tenon::ir
