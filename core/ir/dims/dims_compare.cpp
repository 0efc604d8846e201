// What is known about dims: ranges by interval arithmetic, divisibility, comparisons with the help
// of asserted facts. All of it answers "maybe" rather than search for long; the optimiser then
// takes the general path.
#include <algorithm>
#include <numeric>

#include "core/base/str.h"
#include "core/ir/dims/dims.h"
#include "core/ir/dims/dims_internal.h"

namespace tenon::ir {
namespace {

constexpr int64_t kLowest = INT64_MIN, kHighest = INT64_MAX;
constexpr int64_t kAnyMultiple = int64_t{1} << 62;

bool finite(int64_t v) {
  return v != kLowest && v != kHighest;
}

int64_t saturating_add(int64_t a, int64_t b) {
  // Bounds of one side never mix the two infinities.
  if (!finite(a)) return a;
  if (!finite(b)) return b;
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a < 0 ? kLowest : kHighest;
  return r;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t r;
  if (!finite(a) || !finite(b) || __builtin_mul_overflow(a, b, &r)) {
    return (a < 0) != (b < 0) ? kLowest : kHighest;
  }
  return r;
}

DimRange times(DimRange a, DimRange b) {
  const int64_t c[] = {saturating_mul(a.lo, b.lo), saturating_mul(a.lo, b.hi),
                       saturating_mul(a.hi, b.lo), saturating_mul(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

int64_t saturating_gcd(int64_t a, int64_t b) {
  if (a == kLowest || b == kLowest) return 1;
  return std::gcd(a, b);
}

}  // namespace

// ---- Ranges and multiples ----
DimRange DimTable::range_of_atom(uint32_t index) const {
  const Atom& atom = atoms_[index];
  return atom.kind == AtomKind::kSymbol
             ? DimRange{symbols_[atom.symbol].lo, symbols_[atom.symbol].hi}
             : atom.range;
}

int64_t DimTable::multiple_of_atom(uint32_t index) const {
  const Atom& atom = atoms_[index];
  return atom.kind == AtomKind::kSymbol ? symbols_[atom.symbol].multiple_of : atom.multiple;
}

void DimTable::look_at_atom(uint32_t index) {
  atoms_[index].range = computed_range(atoms_[index]);
  atoms_[index].multiple = computed_multiple(atoms_[index]);
}

DimRange DimTable::computed_range(const Atom& atom) const {
  const DimRange a = range(atom.args[0]);
  const DimRange b = range(atom.args[1]);
  switch (atom.kind) {
    case AtomKind::kFloorDiv: {
      // The divisor is positive wherever the dim has a value.
      const int64_t blo = std::max<int64_t>(b.lo, 1), bhi = std::max<int64_t>(b.hi, 1);
      auto divide = [](int64_t x, int64_t y) {
        if (!finite(x)) return x;
        return y == kHighest ? (x < 0 ? int64_t{-1} : int64_t{0}) : floor_div(x, y);
      };
      return {a.lo < 0 ? divide(a.lo, blo) : divide(a.lo, bhi),
              a.hi < 0 ? divide(a.hi, bhi) : divide(a.hi, blo)};
    }
    case AtomKind::kMod: {
      int64_t hi = b.hi == kHighest ? kHighest : std::max<int64_t>(b.hi, 1) - 1;
      if (a.lo >= 0) hi = std::min(hi, a.hi);
      return {0, hi};
    }
    default: {
      DimRange out = a;
      for (size_t i = 1; i < atom.args.size(); ++i) {
        const DimRange r = range(atom.args[i]);
        if (atom.kind == AtomKind::kMin) {
          out = {std::min(out.lo, r.lo), std::min(out.hi, r.hi)};
        } else {
          out = {std::max(out.lo, r.lo), std::max(out.hi, r.hi)};
        }
      }
      return out;
    }
  }
}

DimRange DimTable::range_of(const DimPoly& poly) const {
  DimRange sum{poly.constant, poly.constant};
  bool product_of_some = false;
  for (const DimTerm& t : poly.terms) {
    DimRange product{t.coeff, t.coeff};
    for (uint32_t a : t.atoms) product = times(product, range_of_atom(a));
    sum = {saturating_add(sum.lo, product.lo), saturating_add(sum.hi, product.hi)};
    product_of_some = product_of_some || t.atoms.size() > 1;
  }
  if (!product_of_some || poly.terms.size() < 2 || sum.lo >= 0) return sum;
  const DimRange other = shifted_range(poly);
  return {std::max(sum.lo, other.lo), std::min(sum.hi, other.hi)};
}

// Substitutes each atom by its least value plus a non-negative rest: n*m - n becomes n*m' with m =
// m' + 1. That is not negative, though the difference of the ranges of its terms may be.
DimRange DimTable::shifted_range(const DimPoly& poly) const {
  constexpr size_t kAtomsMax = 8;
  std::vector<std::pair<uint32_t, DimRange>> atoms;
  for (const DimTerm& t : poly.terms) {
    for (const uint32_t a : t.atoms) {
      const auto same = [&](const auto& known) { return known.first == a; };
      if (std::none_of(atoms.begin(), atoms.end(), same)) atoms.emplace_back(a, range_of_atom(a));
    }
  }
  if (atoms.size() > kAtomsMax) return {};
  DimPoly shifted = poly;
  for (auto& [a, r] : atoms) {
    if (r.lo == 0 || !finite(r.lo)) continue;
    const MaybePoly next = replace_atom(shifted, a, DimPoly{r.lo, {{1, {a}}}});
    if (!next) return {};
    shifted = *next;
    if (finite(r.hi) && __builtin_sub_overflow(r.hi, r.lo, &r.hi)) r.hi = kHighest;
    r.lo = 0;
  }
  DimRange sum{shifted.constant, shifted.constant};
  for (const DimTerm& t : shifted.terms) {
    DimRange product{t.coeff, t.coeff};
    for (const uint32_t a : t.atoms) {
      product = times(product, std::find_if(atoms.begin(), atoms.end(), [&](const auto& known) {
                                 return known.first == a;
                               })->second);
    }
    sum = {saturating_add(sum.lo, product.lo), saturating_add(sum.hi, product.hi)};
  }
  return sum;
}

DimRange DimTable::range(Dim dim) const {
  if (dim >= 0) return {dim, dim};
  return range_of(entries_[static_cast<size_t>(~dim)].poly);
}

int64_t DimTable::computed_multiple(const Atom& atom) const {
  const int64_t a = multiple_of(atom.args[0]);
  if (atom.kind == AtomKind::kFloorDiv) {
    return atom.args[1] > 0 && a % atom.args[1] == 0 ? std::max<int64_t>(a / atom.args[1], 1) : 1;
  }
  int64_t g = a;
  for (size_t i = 1; i < atom.args.size(); ++i) g = saturating_gcd(g, multiple_of(atom.args[i]));
  return g;
}

int64_t DimTable::multiple_of_term(const DimTerm& term) const {
  if (term.coeff == kLowest) return 1;
  int64_t m = std::abs(term.coeff);
  for (uint32_t a : term.atoms) {
    int64_t product;
    // A divisor of the true divisor is correct too.
    if (!__builtin_mul_overflow(m, multiple_of_atom(a), &product)) m = product;
  }
  return m;
}

int64_t DimTable::multiple_of_poly(const DimPoly& poly) const {
  int64_t g = poly.constant == kLowest ? 1 : std::abs(poly.constant);
  for (const DimTerm& t : poly.terms) g = saturating_gcd(g, multiple_of_term(t));
  return g == 0 ? kAnyMultiple : g;
}

int64_t DimTable::multiple_of(Dim dim) const {
  return multiple_of_poly(poly_of(dim));
}

// ---- Equalities ----
bool DimTable::mentions_atom(const DimPoly& poly, uint32_t wanted) const {
  for (const DimTerm& t : poly.terms) {
    for (uint32_t a : t.atoms) {
      if (a == wanted) return true;
      if (atoms_[a].kind == AtomKind::kSymbol) continue;
      for (Dim d : atoms_[a].args) {
        if (mentions_atom(poly_of(d), wanted)) return true;
      }
    }
  }
  return false;
}

DimTable::MaybePoly DimTable::replace_atom(const DimPoly& poly, uint32_t atom, const DimPoly& by) {
  DimPoly sum{poly.constant, {}};
  for (const DimTerm& t : poly.terms) {
    DimPoly product{0, {}};
    DimTerm rest{t.coeff, {}};
    uint32_t power = 0;
    for (uint32_t a : t.atoms) {
      if (a == atom)
        ++power;
      else
        rest.atoms.push_back(a);
    }
    if (rest.atoms.empty())
      product.constant = rest.coeff;
    else
      product.terms.push_back(rest);
    for (uint32_t i = 0; i < power; ++i) {
      MaybePoly next = mul(product, by);
      if (!next) return {};
      product = std::move(*next);
    }
    MaybePoly next = add(sum, product, 1);
    if (!next) return {};
    sum = std::move(*next);
  }
  return sum;
}

// The polynomial with every atom replaced by what it is known to equal.
DimTable::MaybePoly DimTable::canon(const DimPoly& poly) const {
  if (!canonical_) return poly;
  DimPoly sum{poly.constant, {}};
  for (const DimTerm& t : poly.terms) {
    DimPoly product{t.coeff, {}};
    for (uint32_t a : t.atoms) {
      const DimPoly self{0, {{1, {a}}}};
      MaybePoly next = mul(product, atoms_[a].canon ? *atoms_[a].canon : self);
      if (!next) return {};
      product = std::move(*next);
    }
    MaybePoly next = add(sum, product, 1);
    if (!next) return {};
    sum = std::move(*next);
  }
  return settle(std::move(sum));
}

// remake: ranges may have narrowed since the atom was made.
DimPoly DimTable::canon_of_atom(uint32_t index, bool remake) {
  const Atom atom = atoms_[index];
  DimPoly out{0, {{1, {index}}}};
  if (atom.kind != AtomKind::kSymbol) {
    bool changed = remake;
    std::vector<DimPoly> args;
    for (Dim d : atom.args) {
      const DimPoly before = poly_of(d);
      const MaybePoly after = canon(before);
      args.push_back(after ? *after : before);
      changed = changed || args.back() != before;
    }
    if (changed) {
      static constexpr uint32_t kOps[] = {0, TENON_DIM_FLOORDIV, TENON_DIM_MOD, TENON_DIM_MIN,
                                          TENON_DIM_MAX};
      DimPoly made = args[0];
      bool whole = true;
      for (size_t i = 1; i < args.size() && whole; ++i) {
        Result<DimPoly> next = make_poly(kOps[static_cast<size_t>(atom.kind)], made, args[i]);
        whole = next.ok();
        if (whole) made = std::move(*next);
      }
      // A limit, or a divisor that turns out never to be positive: the atom is kept as it is.
      if (whole) out = std::move(made);
    }
  }
  // Solutions mention no atom that has a solution itself, so one pass over the existing atoms is
  // enough.
  std::vector<uint32_t> solved;
  for (const DimTerm& t : out.terms) {
    for (uint32_t a : t.atoms) {
      if (equality_of_.contains(a) && std::find(solved.begin(), solved.end(), a) == solved.end())
        solved.push_back(a);
    }
  }
  for (uint32_t a : solved) {
    MaybePoly next = replace_atom(out, a, equalities_[equality_of_[a]].second);
    if (next) out = std::move(*next);
  }
  return out;
}

void DimTable::refresh_canon(uint32_t solved) {
  // Arguments have lower numbers than the atoms that mention them, so one pass in order is enough;
  // atoms made on the way are canonical from the start.
  for (uint32_t i = 0; i < atoms_.size(); ++i) {
    if (atoms_[i].kind == AtomKind::kSymbol && i != solved) {
      // A symbol changes only if what it equals mentions the atom that was just solved for.
      const bool touched =
          atoms_[i].canon &&
          std::any_of(atoms_[i].canon->terms.begin(), atoms_[i].canon->terms.end(),
                      [&](const DimTerm& t) {
                        return std::binary_search(t.atoms.begin(), t.atoms.end(), solved);
                      });
      if (!touched) continue;
    } else if (atoms_[i].kind != AtomKind::kSymbol && ++refreshed_ > kDimRefreshMax) {
      continue;  // what is known about it stays true; nothing more is learnt
    }
    set_canon(i, canon_of_atom(i));
  }
}

void DimTable::set_canon(uint32_t index, DimPoly canon) {
  const bool self = canon.constant == 0 && canon.terms.size() == 1 && canon.terms[0].coeff == 1 &&
                    canon.terms[0].atoms == std::vector<uint32_t>{index};
  canonical_ = canonical_ || !self;
  if (self)
    atoms_[index].canon.reset();
  else
    atoms_[index].canon = std::move(canon);
}

// A symbol's range or divisor has been narrowed. Dims made before take the form that they would get
// if they were made again, so that the order of dims and facts does not matter. Without `forms`,
// only ranges and divisors are updated.
void DimTable::refresh_mentions(uint32_t symbol_atom, bool forms) {
  std::vector<bool> mentions(symbol_atom + 1);
  mentions[symbol_atom] = true;
  const auto among = [&](Dim d) {
    for (const DimTerm& t : poly_of(d).terms) {
      if (std::any_of(t.atoms.begin(), t.atoms.end(),
                      [&](uint32_t a) { return a < mentions.size() && mentions[a]; }))
        return true;
    }
    return false;
  };
  for (uint32_t i = symbol_atom + 1; i < atoms_.size(); ++i) {
    const bool mine = atoms_[i].kind != AtomKind::kSymbol &&
                      std::any_of(atoms_[i].args.begin(), atoms_[i].args.end(), among);
    mentions.push_back(mine);
    if (!mine) continue;
    if (++refreshed_ > kDimRefreshMax)
      return;  // what is known about them stays true; nothing more is learnt
    look_at_atom(i);
    if (forms) set_canon(i, canon_of_atom(i, true));
  }
}

// Solves zero == 0 for one atom and records the solution.
Status DimTable::learn_equality(const DimPoly& zero) {
  uint32_t best = TENON_NONE;
  bool best_symbol = false;
  int64_t sign = 1;
  for (const DimTerm& t : zero.terms) {
    if (t.atoms.size() != 1 || (t.coeff != 1 && t.coeff != -1)) continue;
    const uint32_t a = t.atoms[0];
    const bool symbol = atoms_[a].kind == AtomKind::kSymbol;
    // The youngest symbol is expressed by older ones, so that inputs explain later symbols.
    if (best != TENON_NONE && (best_symbol && !symbol)) continue;
    if (best != TENON_NONE && best_symbol == symbol && a < best) continue;
    DimPoly rest = zero;
    std::erase_if(rest.terms, [&](const DimTerm& x) { return x.atoms == t.atoms; });
    if (mentions_atom(rest, a)) continue;
    best = a;
    best_symbol = symbol;
    sign = t.coeff;
  }
  if (best == TENON_NONE || zero.terms.size() > kDimUsedTermsMax) {
    if (zeros_.size() < kDimUsedFactsMax && zero.terms.size() <= kDimUsedTermsMax)
      zeros_.push_back(zero);
    return {};
  }
  DimPoly solution = zero;
  std::erase_if(solution.terms,
                [&](const DimTerm& x) { return x.atoms == std::vector<uint32_t>{best}; });
  const MaybePoly flipped = mul(solution, DimPoly{-sign, {}});
  if (!flipped) return error(TENON_OUT_OF_RANGE, "T0303", "a symbolic dim does not fit in 64 bits");
  solution = *flipped;
  for (auto& [atom, by] : equalities_) {
    const bool mentioned = std::any_of(by.terms.begin(), by.terms.end(), [&](const DimTerm& t) {
      return std::binary_search(t.atoms.begin(), t.atoms.end(), best);
    });
    if (!mentioned) continue;
    MaybePoly next = replace_atom(by, best, solution);
    if (next) by = std::move(*next);
  }
  canonical_ = true;
  equality_of_[best] = equalities_.size();
  equalities_.emplace_back(best, solution);
  if (best_symbol) {
    // What was known about the symbol now holds for the solution.
    const SymbolData s = symbols_[atoms_[best].symbol];
    if (s.lo != kLowest) {
      if (const MaybePoly p = add(solution, DimPoly{s.lo, {}}, -1))
        TENON_RETURN_IF_ERROR(narrow(*p));
    }
    if (s.hi != kHighest) {
      if (const MaybePoly p = add(DimPoly{s.hi, {}}, solution, -1))
        TENON_RETURN_IF_ERROR(narrow(*p));
    }
    const DimRange r = range_of(solution);
    SymbolData& mine = symbols_[atoms_[best].symbol];
    const SymbolData before = mine;
    mine.lo = std::max(mine.lo, r.lo);
    mine.hi = std::min(mine.hi, r.hi);
    const bool single = solution.constant == 0 && solution.terms.size() == 1 &&
                        solution.terms[0].coeff == 1 && solution.terms[0].atoms.size() == 1 &&
                        atoms_[solution.terms[0].atoms[0]].kind == AtomKind::kSymbol;
    if (single) {
      SymbolData& other = symbols_[atoms_[solution.terms[0].atoms[0]].symbol];
      int64_t lcm;
      const int64_t part = s.multiple_of / std::gcd(s.multiple_of, other.multiple_of);
      if (!__builtin_mul_overflow(part, other.multiple_of, &lcm) && lcm != other.multiple_of) {
        other.multiple_of = lcm;
        refresh_mentions(solution.terms[0].atoms[0], false);
      }
    }
    mine.multiple_of =
        std::max(mine.multiple_of, std::min(multiple_of_poly(solution), kAnyMultiple));
    if (mine.lo != before.lo || mine.hi != before.hi || mine.multiple_of != before.multiple_of)
      refresh_mentions(best, false);
  }
  refresh_canon(best);
  return {};
}

// poly >= 0 is known. A bound of one symbol goes into its range; anything else becomes a fact for
// proofs.
Status DimTable::narrow(const DimPoly& poly, bool* absorbed) {
  if (range_of(poly).lo >= 0) return {};
  if (poly.terms.size() == 1 && poly.terms[0].atoms.size() == 1 &&
      atoms_[poly.terms[0].atoms[0]].kind == AtomKind::kSymbol && poly.constant != kLowest) {
    const uint32_t index = poly.terms[0].atoms[0];
    SymbolData& s = symbols_[atoms_[index].symbol];
    const int64_t c = poly.terms[0].coeff;
    const DimRange before{s.lo, s.hi};
    // c*s + k >= 0: s >= ceil(-k / c) for c > 0, s <= floor(k / -c) for c < 0.
    if (c > 0)
      s.lo = std::max(s.lo, -floor_div(poly.constant, c));
    else if (c != kLowest)
      s.hi = std::min(s.hi, floor_div(poly.constant, -c));
    if (s.lo != before.lo) s.lo_place = place_;
    if (s.hi != before.hi) s.hi_place = place_;
    if (absorbed != nullptr) *absorbed = true;
    if (s.lo != before.lo || s.hi != before.hi) refresh_mentions(index, true);
    return {};
  }
  if (nonneg_.size() < kDimUsedFactsMax && poly.terms.size() <= kDimUsedTermsMax)
    nonneg_.push_back(poly);
  return {};
}

// ---- Proving ----
// Bounds the search for a proof.
struct DimTable::Search {
  bool facts;   // asserted facts may be used
  int* budget;  // steps left, each about as costly as a dim of a few parts
};

// True if z >= 0 follows from ranges, facts, and the bounds that floordiv, mod, min and max give
// their arguments. z is an integer with poly <= scale * z, so proving poly > -scale is enough.
bool DimTable::prove_nonneg(const DimPoly& poly, int64_t scale, int depth,
                            const Search& search) const {
  if (range_of(poly).lo > -scale) return true;
  if (depth == 0) return false;
  *search.budget -= 1 + static_cast<int>(parts_of(poly) / 64);
  if (*search.budget < 0) return false;
  for (const DimTerm& t : poly.terms) {
    for (size_t k = 0; k < t.atoms.size(); ++k) {
      if (k != 0 && t.atoms[k] == t.atoms[k - 1]) continue;
      if (atoms_[t.atoms[k]].kind != AtomKind::kSymbol &&
          prove_by_atom(poly, scale, t, k, depth, search))
        return true;
      if (*search.budget < 0) return false;
    }
  }
  if (!search.facts) return false;
  for (const DimPoly& known : nonneg_) {
    // Only facts that share a term can help.
    bool related = false;
    for (const DimTerm& t : known.terms) {
      for (const DimTerm& u : poly.terms)
        related = related || (t.atoms == u.atoms && (t.coeff < 0) == (u.coeff < 0));
    }
    if (!related) continue;
    const MaybePoly rest = add(poly, known, -1);
    if (rest && prove_nonneg(*rest, scale, depth - 1, search)) return true;
    if (*search.budget < 0) return false;
  }
  return false;
}

// The same, with one atom of one term replaced by a bound. The other factors of the term must not
// change its sign.
bool DimTable::prove_by_atom(const DimPoly& poly, int64_t scale, const DimTerm& term, size_t factor,
                             int depth, const Search& search) const {
  const uint32_t index = term.atoms[factor];
  const Atom& atom = atoms_[index];
  DimPoly cofactor;
  DimTerm others{1, term.atoms};
  others.atoms.erase(others.atoms.begin() + static_cast<ptrdiff_t>(factor));
  if (others.atoms.empty())
    cofactor.constant = 1;
  else
    cofactor.terms.push_back(others);
  const bool keeps_sign = std::all_of(others.atoms.begin(), others.atoms.end(),
                                      [&](uint32_t a) { return range_of_atom(a).lo >= 0; });
  DimPoly rest = poly;
  std::erase_if(rest.terms, [&](const DimTerm& x) { return x.atoms == term.atoms; });
  const auto with_bound = [&](const DimPoly& rest_of, const DimPoly& bound, int64_t by,
                              int64_t new_scale) {
    const MaybePoly product = mul(bound, cofactor);
    const MaybePoly sum = product ? add(rest_of, *product, by) : MaybePoly();
    return sum && prove_nonneg(*sum, new_scale, depth - 1, search);
  };
  if (atom.kind == AtomKind::kMin || atom.kind == AtomKind::kMax) {
    // c * min(x, y): the minimum is at most each argument, and equals one of them.
    if ((term.coeff < 0) == (atom.kind == AtomKind::kMin)) {
      return keeps_sign && std::any_of(atom.args.begin(), atom.args.end(), [&](Dim d) {
               return with_bound(rest, poly_of(d), term.coeff, scale);
             });
    }
    // The same argument is the minimum at every occurrence.
    return std::all_of(atom.args.begin(), atom.args.end(), [&](Dim d) {
      const MaybePoly p = replace_atom(poly, index, poly_of(d));
      return p && prove_nonneg(*p, scale, depth - 1, search);
    });
  }
  if (!keeps_sign) return false;
  DimPoly bound = poly_of(atom.args[0]);
  if (atom.kind == AtomKind::kMod) {
    // mod is at most its dividend, if that is not negative, and below the divisor.
    if (term.coeff > 0) return false;
    if (range_of(bound).lo >= 0 && with_bound(rest, bound, term.coeff, scale)) return true;
    const MaybePoly below =
        atom.args[1] < 0 ? add(poly_of(atom.args[1]), DimPoly{1, {}}, -1) : MaybePoly();
    return below && with_bound(rest, *below, term.coeff, scale);
  }
  if (atom.args[1] <= 0) return false;
  const int64_t d = atom.args[1];
  // d * floordiv(p, d) lies in [p - d + 1, p], so everything is multiplied by d.
  int64_t wider;
  if (term.coeff > 0 && __builtin_sub_overflow(bound.constant, d - 1, &bound.constant))
    return false;
  if (__builtin_mul_overflow(scale, d, &wider)) return false;
  const MaybePoly scaled = mul(rest, DimPoly{d, {}});
  return scaled && with_bound(*scaled, bound, term.coeff, wider);
}

bool DimTable::nonneg(const DimPoly& poly) const {
  int budget = 120;
  return prove_nonneg(poly, 1, 4, {true, &budget});
}

bool DimTable::nonneg_by_ranges(const DimPoly& poly) const {
  int budget =
      parts_of(poly) <= kDimLawPartsMax ? 24 : 0;  // large ones are compared by their ranges only
  return prove_nonneg(poly, 1, 3, {false, &budget});
}

uint32_t DimTable::divisible(const DimPoly& a, const DimPoly& b) const {
  if (divide_exactly(a, b)) return TENON_YES;
  if (b.is_constant()) {
    if (b.constant == 0) return a.is_constant() ? TENON_NO : TENON_MAYBE;
    const int64_t d = b.constant < 0 ? -b.constant : b.constant;
    if (d <= 0) return TENON_MAYBE;
    if (multiple_of_poly(a) % d == 0 || is_multiple(a, d)) return TENON_YES;
    bool others_vanish = true;
    for (const DimTerm& t : a.terms) others_vanish = others_vanish && multiple_of_term(t) % d == 0;
    if (others_vanish) return TENON_NO;
    const DimRange r = range_of(a);
    if (r.lo > 0 && r.hi < d) return TENON_NO;
  }
  uint32_t looked = 0;
  for (const DimFact& f : facts_) {
    if (f.rel != TENON_REL_DIVISIBLE) continue;
    if (++looked > kDimUsedFactsMax) break;
    const MaybePoly fa = canon(poly_of(f.a));
    const MaybePoly fb = canon(poly_of(f.b));
    if (!fa || !fb || !divide_exactly(*fb, b)) continue;
    const MaybePoly rest = add(a, *fa, -1);
    if (rest && (divide_exactly(*rest, b) ||
                 (b.is_constant() && multiple_of_poly(*rest) % b.constant == 0))) {
      return TENON_YES;
    }
  }
  return TENON_MAYBE;
}

uint32_t DimTable::compare(uint32_t rel, Dim a, Dim b) const {
  if (!valid(a) || !valid(b)) return TENON_MAYBE;
  if (rel == TENON_REL_EQ && a == b) return TENON_YES;
  if (rel == TENON_REL_DIVISIBLE && a >= 0 && b > 0) return a % b == 0 ? TENON_YES : TENON_NO;
  if (rel != TENON_REL_DIVISIBLE && a >= 0 && b >= 0) {
    return relation_holds(rel, a, b) ? TENON_YES : TENON_NO;
  }
  const MaybePoly pa = canon(poly_of(a));
  const MaybePoly pb = canon(poly_of(b));
  if (!pa || !pb) return TENON_MAYBE;
  if (rel == TENON_REL_DIVISIBLE) return divisible(*pa, *pb);
  MaybePoly diff = add(*pb, *pa, -1);  // b - a
  if (diff) diff = settle(std::move(*diff), true);
  if (!diff) return TENON_MAYBE;
  const MaybePoly minus = mul(*diff, DimPoly{-1, {}});
  if (!minus) return TENON_MAYBE;
  auto shifted = [](const DimPoly& p) {  // p - 1
    return add(p, DimPoly{1, {}}, -1);
  };
  const MaybePoly above = shifted(*diff), below = shifted(*minus);
  if (!above || !below) return TENON_MAYBE;
  if (rel == TENON_REL_EQ) {
    if (diff->is_constant()) return diff->constant == 0 ? TENON_YES : TENON_NO;
    for (const DimPoly& zero : zeros_) {
      if (zero == *diff || zero == *minus) return TENON_YES;
      const MaybePoly z = zero.terms.size() == diff->terms.size() ? canon(zero) : MaybePoly();
      if (z && (*z == *diff || *z == *minus)) return TENON_YES;
    }
    int64_t g = 0;
    for (const DimTerm& t : diff->terms) g = saturating_gcd(g, multiple_of_term(t));
    if (g > 1 && diff->constant % g != 0) return TENON_NO;
    if (nonneg(*above) || nonneg(*below)) return TENON_NO;
    if (nonneg(*diff) && nonneg(*minus)) return TENON_YES;
    return TENON_MAYBE;
  }
  if (rel == TENON_REL_LE)
    return nonneg(*diff) ? TENON_YES : nonneg(*below) ? TENON_NO : TENON_MAYBE;
  if (rel == TENON_REL_LT)
    return nonneg(*above) ? TENON_YES : nonneg(*minus) ? TENON_NO : TENON_MAYBE;
  return TENON_MAYBE;
}

// ---- Asserting ----
Status DimTable::assert_fact(uint32_t rel, Dim a, Dim b) {
  if (rel > TENON_REL_DIVISIBLE || !valid(a) || !valid(b)) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not a relation of two dims of this graph",
                 rel);
  }
  const uint32_t known = compare(rel, a, b);
  if (known == TENON_YES) return {};
  if (known == TENON_NO) {
    static constexpr const char* kWords[] = {"==", "<", "<=", "is a multiple of"};
    return error(TENON_INVALID_ARGUMENT, "T0306",
                 "`{} {} {}` contradicts what is known of these dims", text(a), kWords[rel],
                 text(b));
  }
  if (read_only_) return error(TENON_FAILED_PRECONDITION, "T0302", "the graph is frozen");
  for (const DimFact& f : facts_) {
    if (f.rel == rel && f.a == a && f.b == b)
      return {};  // asserted before, though nothing could be proved from it
  }
  if (facts_.size() >= kDimFactsMax) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0305", "a graph has more than {} facts about its dims",
                 kDimFactsMax);
  }
  const MaybePoly pa = canon(poly_of(a));
  const MaybePoly pb = canon(poly_of(b));
  if (!pa || !pb)
    return error(TENON_OUT_OF_RANGE, "T0303", "a symbolic dim does not fit in 64 bits");
  // What a symbol's own range can express is kept there and nowhere else.
  if (rel == TENON_REL_DIVISIBLE) {
    const bool symbol = pa->constant == 0 && pa->terms.size() == 1 && pa->terms[0].coeff == 1 &&
                        pa->terms[0].atoms.size() == 1 &&
                        atoms_[pa->terms[0].atoms[0]].kind == AtomKind::kSymbol;
    if (symbol && pb->is_constant() && pb->constant > 0) {
      SymbolData& s = symbols_[atoms_[pa->terms[0].atoms[0]].symbol];
      int64_t lcm;
      if (!__builtin_mul_overflow(s.multiple_of / std::gcd(s.multiple_of, pb->constant),
                                  pb->constant, &lcm)) {
        s.multiple_of = lcm;
        s.multiple_place = place_;
        refresh_mentions(pa->terms[0].atoms[0], true);
        return {};
      }
    }
    facts_.push_back({rel, a, b, place_});
    return {};
  }
  MaybePoly diff = add(*pb, *pa, -1);
  if (!diff) return error(TENON_OUT_OF_RANGE, "T0303", "a symbolic dim does not fit in 64 bits");
  if (rel == TENON_REL_EQ) {
    facts_.push_back({rel, a, b, place_});
    return learn_equality(*diff);
  }
  if (rel == TENON_REL_LT) {
    diff = add(*diff, DimPoly{1, {}}, -1);
    if (!diff) return error(TENON_OUT_OF_RANGE, "T0303", "a symbolic dim does not fit in 64 bits");
  }
  bool absorbed = false;
  TENON_RETURN_IF_ERROR(narrow(*diff, &absorbed));
  if (!absorbed) facts_.push_back({rel, a, b, place_});
  return {};
}

Status DimTable::record_fact(uint32_t rel, Dim a, Dim b) {
  const size_t before = facts_.size();
  TENON_RETURN_IF_ERROR(assert_fact(rel, a, b));
  if (facts_.size() != before || !(mentions_symbols(a) || mentions_symbols(b))) return {};
  // Bounds of one symbol are kept in its range.
  std::vector<Symbol> mentioned;
  symbols_of(a, &mentioned);
  symbols_of(b, &mentioned);
  if (rel != TENON_REL_EQ && mentioned.size() == 1) return {};
  for (const DimFact& f : facts_) {
    if (f.rel == rel && f.a == a && f.b == b) return {};
  }
  if (facts_.size() < kDimFactsMax) facts_.push_back({rel, a, b, place_});
  return {};
}

}  // namespace tenon::ir
