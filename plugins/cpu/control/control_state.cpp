#include "control/control_state.h"

#include <algorithm>
#include <limits>

#include "tenon/cpp/arithmetic.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

std::string_view relation_text(uint32_t rel) {
  switch (rel) {
    case TENON_REL_EQ:
      return "them to be equal";
    case TENON_REL_LT:
      return "the first to be less";
    case TENON_REL_LE:
      return "the first to be at most the second";
    default:
      return "the first to be a multiple of the second";
  }
}

}  // namespace

RunSizes::RunSizes(const LoadedProgram& loaded, const ControlShape& shape)
    : loaded_(loaded),
      program_(loaded.program),
      shape_(shape),
      symbols_(program_.symbol_count, 0),
      known_(program_.symbol_count, false) {
  for (size_t i = 0; i < program_.main_symbols.size(); ++i)
    symbols_[program_.main_symbols[i]] = shape_.main_symbols[i];
}

Status RunSizes::learn(uint32_t symbol, int64_t value) {
  const int64_t multiple = program_.multiples[symbol];
  if (value < program_.lows[symbol] || value > program_.bounds[symbol] ||
      (multiple > 1 && value % multiple != 0)) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0608: a size that data decides is ", value,
                    ", and the model wants it at least ", program_.lows[symbol],
                    program_.bounds[symbol] == std::numeric_limits<int64_t>::max()
                        ? ""
                        : cat(" and at most ", program_.bounds[symbol]),
                    multiple > 1 ? cat(" and a multiple of ", multiple) : "", place_of(symbol)));
  }
  symbols_[symbol] = value;
  known_[symbol] = true;
  for (uint32_t f : loaded_.facts_of[symbol]) {
    const ControlFact& fact = program_.facts[f];
    if (!std::ranges::all_of(fact.symbols, [this](uint32_t s) { return known_[s]; })) continue;
    const int64_t a = fact.a.evaluate(symbols_), b = fact.b.evaluate(symbols_);
    if (arithmetic::relation_holds(fact.rel, a, b)) continue;
    return fail(TENON_INVALID_ARGUMENT, cat("T0607: ", fact.place.empty() ? "" : fact.place + ": ",
                                            "sizes that data decides are ", a, " and ", b,
                                            "; the model needs ", relation_text(fact.rel), "."));
  }
  return {};
}

// The node that defines a symbol.
std::string RunSizes::place_of(uint32_t symbol) const {
  for (const ControlRegion& region : program_.regions) {
    for (const ControlPart& part : region.parts) {
      if (std::ranges::any_of(part.defines,
                              [symbol](const ControlSize& s) { return s.symbol == symbol; }))
        return ", computed by " + part.place;
    }
  }
  return {};
}

void RunSizes::forget(const ControlRegion& region) {
  for (const ControlPart& part : region.parts) {
    for (const ControlSize& s : part.defines) known_[s.symbol] = false;
  }
}

}  // namespace tenon::cpu
