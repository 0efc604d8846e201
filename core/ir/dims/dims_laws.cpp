// The laws of floordiv, mod, min and max: in which form each is made, so that what is equal meets,
// and which sums of them are shorter than they are written. Forms follow from ranges of symbols
// only, never from what was asserted besides: a dim's form does not depend on when it was made.
#include <algorithm>
#include <numeric>

#include "core/base/str.h"
#include "core/ir/dims/dims.h"
#include "core/ir/dims/dims_internal.h"

namespace tenon::ir {
namespace {

constexpr int64_t kMergedDivisorMax = int64_t{1} << 31;  // of nested divisions that become one
constexpr size_t kComparedMax = 6;       // arguments of min and max that are compared by proofs
constexpr uint64_t kSpreadPartsMax = 8;  // of what is added to each argument of a min or max

// What d divides term by term leaves p: p == d * *quotient + *rest, with rest's coefficients in [0,
// d).
void split_by_constant(const DimPoly& p, int64_t d, DimPoly* quotient, DimPoly* rest) {
  quotient->constant = floor_div(p.constant, d);
  rest->constant = floor_mod(p.constant, d);
  for (const DimTerm& t : p.terms) {
    const int64_t q = floor_div(t.coeff, d), r = floor_mod(t.coeff, d);
    if (q != 0) quotient->terms.push_back({q, t.atoms});
    if (r != 0) rest->terms.push_back({r, t.atoms});
  }
}

int64_t coefficient_gcd(const DimPoly& p, int64_t start) {
  int64_t g = start;
  for (const DimTerm& t : p.terms) g = t.coeff == INT64_MIN ? 1 : std::gcd(g, t.coeff);
  return g;
}

DimPoly polynomial(int64_t coeff, std::vector<uint32_t> atoms) {
  DimPoly out;
  if (atoms.empty())
    out.constant = coeff;
  else if (coeff != 0)
    out.terms.push_back({coeff, std::move(atoms)});
  return out;
}

std::vector<uint32_t> with(std::vector<uint32_t> atoms, uint32_t atom) {
  atoms.insert(std::upper_bound(atoms.begin(), atoms.end(), atom), atom);
  return atoms;
}

int64_t coefficient_of(const DimPoly& p, const std::vector<uint32_t>& atoms) {
  const auto at = std::lower_bound(p.terms.begin(), p.terms.end(), atoms,
                                   [](const DimTerm& t, const auto& key) { return t.atoms < key; });
  return at != p.terms.end() && at->atoms == atoms ? at->coeff : 0;
}

}  // namespace

// ---- Sums ----

// p modulo d as short as it gets: terms that d divides leave, and mod(x, m) stands for x where d
// divides what they differ by.
DimPoly DimTable::residue(const DimPoly& p, int64_t d) const {
  DimPoly quotient, rest;
  split_by_constant(p, d, &quotient, &rest);
  for (size_t i = 0; i < rest.terms.size(); ++i) {
    const DimTerm t = rest.terms[i];
    if (multiple_of_term(t) % d == 0) {
      rest.terms.erase(rest.terms.begin() + static_cast<ptrdiff_t>(i--));
      continue;
    }
    const Atom& atom = atoms_[t.atoms[0]];
    int64_t step;
    if (t.atoms.size() != 1 || atom.kind != AtomKind::kMod || atom.args[1] <= 0 ||
        __builtin_mul_overflow(t.coeff, atom.args[1], &step) || step % d != 0) {
      continue;
    }
    const MaybePoly less = add(rest, polynomial(t.coeff, t.atoms), -1);
    const MaybePoly more = less ? add(*less, poly_of(atom.args[0]), t.coeff) : MaybePoly();
    return more ? residue(*more, d) : rest;
  }
  return rest;
}

bool DimTable::is_multiple(const DimPoly& p, int64_t d) const {
  const DimPoly rest = residue(p, d);
  return rest.is_constant() && rest.constant == 0;
}

// The atom that floordiv or mod of these would be, if it is there.
std::optional<uint32_t> DimTable::atom_of(AtomKind kind, const DimPoly& p, int64_t d) const {
  const auto dim = lookup(p);
  return dim ? atom_lookup(kind, {*dim, d}) : std::nullopt;
}

// One floordiv or mod, an atom of one term of a sum, and the laws by which the sum is shorter
// without it. The atom is f = floordiv(p, d) or m = mod(p, d); the term is coeff * others * atom.
class DimTable::Join {
 public:
  Join(const DimTable& table, const DimPoly& sum, const DimTerm& term, size_t factor)
      : table_(table),
        sum_(sum),
        coeff_(term.coeff),
        atoms_(term.atoms),
        self_(term.atoms[factor]),
        others_(term.atoms),
        d_(table.atoms_[self_].args[1]),
        p_(table.poly_of(table.atoms_[self_].args[0])),
        opposite_(add(DimPoly{d_ - 1, {}}, p_, -1)) {
    others_.erase(others_.begin() + static_cast<ptrdiff_t>(factor));
  }

  // compared: the sum is only compared with others, not kept.
  MaybePoly shorter(bool compared) const {
    if (!opposite_) return {};
    MaybePoly out;
    if (table_.atoms_[self_].kind == AtomKind::kMod) {
      if (compared) out = digits();
      return out ? out : complementary_remainders();
    }
    if (coeff_ % d_ == 0) {
      out = exact_quotient();
      if (!out) out = quotient_and_remainder();
      if (!out) out = rounded_up();
    }
    if (!out) out = nested_quotient();
    return out ? out : complementary_quotients();
  }

 private:
  // e * mod(floordiv(z, e), d) + mod(z, e) == mod(z, e*d): two digits of z are one of a larger
  // base. Only where dims are compared, since a form must not depend on whether another remainder
  // is there.
  MaybePoly digits() const {
    const Atom* inner = table_.sole_atom(p_, AtomKind::kFloorDiv, 1);
    if (inner == nullptr || inner->args[1] <= 0 || coeff_ % inner->args[1] != 0) return {};
    const int64_t e = inner->args[1], scale = coeff_ / e;
    int64_t base;
    if (__builtin_mul_overflow(e, d_, &base)) return {};
    const DimPoly z = table_.poly_of(inner->args[0]);
    const auto low = remainder(z, e), all = remainder(z, base);
    if (!low || !all || beside_others(*low) != scale) return {};
    return exchange(scale, with(others_, *low), polynomial(1, {*all}), scale);
  }

  // mod(p, d) + mod(d - 1 - p, d) == d - 1: the residues r and d - 1 - r.
  MaybePoly complementary_remainders() const {
    return replaced(remainder(*opposite_, d_), DimPoly{d_ - 1, {}});
  }

  // d * f == p where d divides p.
  MaybePoly exact_quotient() const {
    return table_.is_multiple(p_, d_) ? exchange(0, {}, p_, coeff_ / d_) : MaybePoly();
  }

  // d * f + mod(p, d) == p: the definition of the two.
  MaybePoly quotient_and_remainder() const {
    const int64_t scale = coeff_ / d_;
    const auto mod = table_.atom_of(AtomKind::kMod, p_, d_);
    if (!mod || beside_others(*mod) != scale) return {};
    return exchange(scale, with(others_, *mod), p_, scale);
  }

  // d * f - mod(-q, d) == q with q = p - (d - 1): f is q / d rounded up, and mod(-q, d) is what
  // that adds to q.
  MaybePoly rounded_up() const {
    const int64_t scale = coeff_ / d_;
    const auto mod = remainder(*opposite_, d_);
    const MaybePoly q = mul(*opposite_, DimPoly{-1, {}});
    if (!q || !mod || scale == INT64_MIN || beside_others(*mod) != -scale) return {};
    return exchange(-scale, with(others_, *mod), *q, scale);
  }

  // e * f + mod(g, e) == g for an f that is floordiv(g, e) with g = floordiv(p, d / e): division in
  // two steps is division by the product.
  MaybePoly nested_quotient() const {
    for (const DimTerm& t : sum_.terms) {
      // The atom of this term besides the others, if there is exactly one.
      if (t.atoms.size() != others_.size() + 1 ||
          !std::includes(t.atoms.begin(), t.atoms.end(), others_.begin(), others_.end()))
        continue;
      std::vector<uint32_t> own;
      std::set_difference(t.atoms.begin(), t.atoms.end(), others_.begin(), others_.end(),
                          std::back_inserter(own));
      const Atom& extra = table_.atoms_[own[0]];
      if (extra.kind != AtomKind::kMod || extra.args[1] <= 0 || d_ % extra.args[1] != 0 ||
          coeff_ % extra.args[1] != 0 || coeff_ / extra.args[1] != t.coeff) {
        continue;
      }
      const auto outer = table_.atom_of(AtomKind::kFloorDiv, p_, d_ / extra.args[1]);
      const DimPoly g = table_.poly_of(extra.args[0]);
      if (outer && g == polynomial(1, {*outer})) return exchange(t.coeff, t.atoms, g, t.coeff);
    }
    return {};
  }

  // f + floordiv(d - 1 - p, d) == 0: -p / d rounded up is -f. What d divides leaves the second one.
  MaybePoly complementary_quotients() const {
    DimPoly quotient, rest;
    split_by_constant(*opposite_, d_, &quotient, &rest);
    const MaybePoly sum = mul(quotient, DimPoly{-1, {}});
    return sum ? replaced(table_.atom_of(AtomKind::kFloorDiv, rest, d_), *sum) : MaybePoly();
  }

  // The atom that the shortest form of mod(p, d) would be, if it is there.
  std::optional<uint32_t> remainder(const DimPoly& p, int64_t d) const {
    return table_.atom_of(AtomKind::kMod, table_.residue(p, d), d);
  }
  // The coefficient of others * atom in the sum.
  int64_t beside_others(uint32_t atom) const { return coefficient_of(sum_, with(others_, atom)); }

  // The term and remainder * left leave the sum, and scale * others * gain comes.
  MaybePoly exchange(int64_t remainder, std::vector<uint32_t> left, const DimPoly& gain,
                     int64_t scale) const {
    MaybePoly out = add(sum_, polynomial(coeff_, atoms_), -1);
    if (out && !left.empty()) out = add(*out, polynomial(remainder, std::move(left)), -1);
    const MaybePoly more = out ? mul(gain, polynomial(scale, others_)) : MaybePoly();
    return more ? add(*out, *more, 1) : MaybePoly();
  }

  // Of two atoms whose sum is known the other one leaves.
  MaybePoly replaced(std::optional<uint32_t> other, const DimPoly& sum) const {
    const int64_t its = other && *other != self_ ? beside_others(*other) : 0;
    if (its == 0 || its == INT64_MIN) return {};
    MaybePoly gain = mul(sum, DimPoly{its, {}});
    gain = gain ? add(*gain, polynomial(coeff_, {self_}), 1) : MaybePoly();
    gain = gain ? add(*gain, polynomial(-its, {self_}), 1) : MaybePoly();
    return gain ? exchange(its, with(others_, *other), *gain, 1) : MaybePoly();
  }

  const DimTable& table_;
  const DimPoly& sum_;
  const int64_t coeff_;
  const std::vector<uint32_t>& atoms_;  // of the term
  const uint32_t self_;
  std::vector<uint32_t> others_;
  const int64_t d_;
  const DimPoly p_;
  const MaybePoly opposite_;  // d - 1 - p
};

// Without these laws a dim that was split and joined again would not be the dim it came from. Each
// step leaves fewer terms with a floordiv or a mod.
DimTable::MaybePoly DimTable::settle(DimPoly poly, bool compared) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < poly.terms.size() && !changed; ++i) {
      for (size_t k = 0; !changed && k < poly.terms[i].atoms.size(); ++k) {
        const Atom& a = atoms_[poly.terms[i].atoms[k]];
        if ((a.kind != AtomKind::kFloorDiv && a.kind != AtomKind::kMod) || a.args[1] <= 0) continue;
        MaybePoly next = Join(*this, poly, poly.terms[i], k).shorter(compared);
        changed = next.has_value();
        if (changed) poly = std::move(*next);
      }
    }
  }
  return poly;
}

// ---- floordiv ----

Result<DimPoly> DimTable::make_floordiv(const DimPoly& p, const DimPoly& d) {
  if (range_of(d).hi <= 0) {
    return error(TENON_INVALID_ARGUMENT, "T0304",
                 "division of the dim `{}` by `{}`, which is never positive", text_of(p, 0),
                 text_of(d, 0));
  }
  if (const MaybePoly exact = divide_exactly(p, d)) return *exact;
  // What divides exactly leaves: whole multiples of a constant, terms that a single term divides.
  DimPoly quotient, rest{p.constant, {}};
  DimPoly open = p;
  if (d.is_constant()) {
    open = {};
    split_by_constant(p, d.constant, &quotient, &open);
    rest.constant = open.constant;
  }
  const bool single = d.is_constant() || (d.terms.size() == 1 && d.constant == 0);
  const bool alone = open.terms.size() == 1 && open.constant == 0;
  for (const DimTerm& t : open.terms) {
    MaybePoly part;
    if (d.is_constant() && !alone && multiple_of_term(t) % d.constant == 0) {
      TENON_ASSIGN_OR_RETURN(part, make_floordiv(polynomial(t.coeff, t.atoms), d));
    } else if (!d.is_constant() && single) {
      part = divide_exactly(polynomial(t.coeff, t.atoms), d);
    }
    if (!part) {
      rest.terms.push_back(t);
      continue;
    }
    const MaybePoly sum = add(quotient, *part, 1);
    if (!sum) return why_not(quotient, *part);
    quotient = *sum;
  }
  if (rest.is_constant() && rest.constant == 0) return quotient;
  TENON_ASSIGN_OR_RETURN(const DimPoly part, floordiv_of_rest(rest, d));
  const MaybePoly sum = add(quotient, part, 1);
  if (!sum) return why_not(quotient, part);
  const MaybePoly settled = settle(*sum);
  return settled ? *settled : *sum;
}

// The sum is one atom of that kind times coeff, or null.
const DimTable::Atom* DimTable::sole_atom(const DimPoly& poly, AtomKind kind, int64_t coeff) const {
  if (poly.constant != 0 || poly.terms.size() != 1 || poly.terms[0].coeff != coeff ||
      poly.terms[0].atoms.size() != 1)
    return nullptr;
  const Atom& atom = atoms_[poly.terms[0].atoms[0]];
  return atom.kind == kind ? &atom : nullptr;
}

// Any function of c*x + k with an x that is 0 or 1 is a line through its two values.
template <class Function>
DimTable::MaybePoly DimTable::of_two_values(const DimPoly& poly, Function function) const {
  if (poly.terms.size() != 1) return {};
  const DimPoly x = polynomial(1, poly.terms[0].atoms);
  const DimRange r = range_of(x);
  int64_t other;
  if (r.lo != 0 || r.hi != 1 || __builtin_add_overflow(poly.constant, poly.terms[0].coeff, &other))
    return {};
  const int64_t at_zero = function(poly.constant), step = function(other) - at_zero;
  const MaybePoly line = mul(x, DimPoly{step, {}});
  return line ? add(*line, DimPoly{at_zero, {}}, 1) : MaybePoly();
}

// floordiv is monotonic in the dividend, and in the divisor for either sign of the dividend: equal
// quotients at the corners of the ranges are the quotient everywhere.
DimTable::MaybePoly DimTable::floordiv_by_ranges(const DimPoly& rest, const DimPoly& d) const {
  const DimRange rr = range_of(rest), dr = range_of(d);
  if (rr.lo == INT64_MIN || rr.hi == INT64_MAX || dr.lo <= 0 || dr.hi == INT64_MAX) return {};
  const int64_t corner = floor_div(rr.lo, dr.lo);
  if (floor_div(rr.lo, dr.hi) != corner || floor_div(rr.hi, dr.lo) != corner ||
      floor_div(rr.hi, dr.hi) != corner) {
    return {};
  }
  return DimPoly{corner, {}};
}

// 0 <= rest < d gives 0, and -d <= rest < 0 gives -1: the definition, with a proof of the bounds.
DimTable::MaybePoly DimTable::floordiv_by_bounds(const DimPoly& rest, const DimPoly& d) const {
  for (const int64_t quotient : {0, -1}) {
    const MaybePoly from = quotient == 0 ? MaybePoly(rest) : add(rest, d, 1);
    const MaybePoly gap = quotient == 0 ? add(d, rest, -1) : add({}, rest, -1);
    const MaybePoly to = gap ? add(*gap, DimPoly{1, {}}, -1) : MaybePoly();
    if (from && to && nonneg_by_ranges(*from) && nonneg_by_ranges(*to))
      return DimPoly{quotient, {}};
  }
  return {};
}

// floordiv(g*a + c, g*b) == floordiv(a + floordiv(c, g), b): what c has beyond a multiple of g is
// less than one unit of a, and lifts no quotient of whole numbers.
DimTable::LawResult DimTable::floordiv_of_common_factor(const DimPoly& rest, int64_t d) {
  const int64_t g = coefficient_gcd(rest, d);
  if (g <= 1 || rest.is_constant()) return {};
  DimPoly reduced = rest;
  reduced.constant = floor_div(rest.constant, g);
  for (DimTerm& t : reduced.terms) t.coeff /= g;
  return make_floordiv(reduced, DimPoly{d / g, {}});
}

// Whether the sum is one term whose atoms are always a multiple of d, whatever its coefficient.
bool DimTable::divides_atoms(const DimPoly& rest, int64_t d) const {
  return rest.terms.size() == 1 && rest.constant == 0 &&
         multiple_of_poly(polynomial(1, rest.terms[0].atoms)) % d == 0;
}

// floordiv(c*x, d) == c * floordiv(x, d) where d divides x: the quotient is exact, and stays one
// division whatever the coefficient.
DimTable::LawResult DimTable::floordiv_of_multiple(const DimPoly& rest, int64_t d) {
  if (!divides_atoms(rest, d) || rest.terms[0].coeff == 1) return {};
  TENON_ASSIGN_OR_RETURN(const DimPoly part,
                         floordiv_of_rest(polynomial(1, rest.terms[0].atoms), DimPoly{d, {}}));
  const MaybePoly scaled = mul(part, DimPoly{rest.terms[0].coeff, {}});
  return scaled ? Result<DimPoly>(*scaled) : Result<DimPoly>(overflow());
}

// The line through two values, for floordiv.
DimTable::LawResult DimTable::floordiv_of_two_values(const DimPoly& rest, int64_t d) {
  const auto two = of_two_values(rest, [&](int64_t v) { return floor_div(v, d); });
  return two ? LawResult(*two) : LawResult();
}

// floordiv(floordiv(z, a) + y, d) == floordiv(z + a*y, a*d): a whole y moves through the inner
// division as a*y, and two divisions are one by the product. Only where there is one such z, or the
// form would depend on which was made first.
DimTable::LawResult DimTable::floordiv_of_floordiv(const DimPoly& rest, int64_t d) {
  const DimTerm* inner = nullptr;
  for (const DimTerm& t : rest.terms) {
    const Atom& atom = atoms_[t.atoms[0]];
    if (t.coeff != 1 || t.atoms.size() != 1 || atom.kind != AtomKind::kFloorDiv ||
        atom.args[1] <= 0)
      continue;
    if (inner != nullptr) return {};
    inner = &t;
  }
  if (inner == nullptr) return {};
  const Atom& atom = atoms_[inner->atoms[0]];
  int64_t product;
  if (__builtin_mul_overflow(atom.args[1], d, &product) || product > kMergedDivisorMax) return {};
  const MaybePoly y = add(rest, polynomial(1, inner->atoms), -1);
  const MaybePoly scaled = y ? mul(*y, DimPoly{atom.args[1], {}}) : MaybePoly();
  const MaybePoly dividend = scaled ? add(poly_of(atom.args[0]), *scaled, 1) : MaybePoly();
  return dividend ? LawResult(make_floordiv(*dividend, DimPoly{product, {}})) : LawResult();
}

// floordiv(mod(x, d*m), d) == mod(floordiv(x, d), m): the digits of x above the lowest, of a number
// that was cut after the same digit.
DimTable::LawResult DimTable::floordiv_of_mod(const DimPoly& rest, int64_t d) {
  const Atom* mod = sole_atom(rest, AtomKind::kMod, 1);
  if (mod == nullptr || mod->args[1] <= 0 || mod->args[1] % d != 0) return {};
  const DimPoly x = poly_of(mod->args[0]), m{mod->args[1] / d, {}};
  TENON_ASSIGN_OR_RETURN(const DimPoly inner, make_floordiv(x, DimPoly{d, {}}));
  return make_mod(inner, m);
}

// floordiv(c * max(x, y) + k, d) == max(floordiv(c*x + k, d), floordiv(c*y + k, d)), and of min:
// division by what is positive keeps the order. c is positive, as every coefficient of a rest is.
DimTable::LawResult DimTable::floordiv_of_choice(const DimPoly& rest, int64_t d) {
  if (divides_atoms(rest, d) || rest.terms.size() != 1 || rest.terms[0].atoms.size() != 1 ||
      parts_of(rest) > kDimLawPartsMax) {
    return {};
  }
  const DimTerm term = rest.terms[0];
  const Atom atom = atoms_[term.atoms[0]];
  const bool choice = atom.kind == AtomKind::kMin || atom.kind == AtomKind::kMax;
  if (!choice || atom.args.size() > kComparedMax) return {};
  std::vector<DimPoly> parts;
  for (const Dim arg : atom.args) {
    const MaybePoly scaled = mul(poly_of(arg), DimPoly{term.coeff, {}});
    const MaybePoly sum = scaled ? add(*scaled, DimPoly{rest.constant, {}}, 1) : MaybePoly();
    if (!sum) return overflow();
    TENON_ASSIGN_OR_RETURN(DimPoly part, make_floordiv(*sum, DimPoly{d, {}}));
    parts.push_back(std::move(part));
  }
  DimPoly out = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(out, make_min_max(atom.kind == AtomKind::kMin, out, parts[i]));
  }
  return out;
}

// floordiv(s*a, s*b) == floordiv(a, b) for an s that all terms share with the divisor, and that is
// not negative.
DimTable::LawResult DimTable::floordiv_of_shared_atoms(const DimPoly& rest, const DimPoly& d) {
  if (d.terms.size() != 1 || d.constant != 0 || rest.constant != 0) return {};
  std::vector<uint32_t> shared = d.terms[0].atoms;
  for (const DimTerm& t : rest.terms) {
    std::vector<uint32_t> both;
    std::set_intersection(shared.begin(), shared.end(), t.atoms.begin(), t.atoms.end(),
                          std::back_inserter(both));
    shared = std::move(both);
  }
  std::erase_if(shared, [&](uint32_t a) { return range_of_atom(a).lo < 0; });
  if (shared.empty()) return {};
  const MaybePoly less = divide_exactly(rest, polynomial(1, shared));
  const MaybePoly by = less ? divide_exactly(d, polynomial(1, shared)) : MaybePoly();
  return less && by ? LawResult(make_floordiv(*less, *by)) : LawResult();
}

// Of what is left when exact multiples are gone: the first law that applies, or an atom.
Result<DimPoly> DimTable::floordiv_of_rest(const DimPoly& rest, const DimPoly& d) {
  if (const auto quotient = floordiv_by_ranges(rest, d)) return *quotient;
  if (const auto quotient = floordiv_by_bounds(rest, d)) return *quotient;
  if (d.is_constant()) {
    using Law = LawResult (DimTable::*)(const DimPoly&, int64_t);
    static constexpr Law kLaws[] = {
        &DimTable::floordiv_of_common_factor, &DimTable::floordiv_of_multiple,
        &DimTable::floordiv_of_two_values,    &DimTable::floordiv_of_floordiv,
        &DimTable::floordiv_of_mod,           &DimTable::floordiv_of_choice,
    };
    for (const Law law : kLaws) {
      if (LawResult quotient = (this->*law)(rest, d.constant)) return *std::move(quotient);
    }
  } else if (LawResult quotient = floordiv_of_shared_atoms(rest, d)) {
    return *std::move(quotient);
  }
  TENON_ASSIGN_OR_RETURN(const Dim a, intern(rest));
  TENON_ASSIGN_OR_RETURN(const Dim b, intern(d));
  return atom_poly(AtomKind::kFloorDiv, {a, b});
}

// ---- mod ----

Result<DimPoly> DimTable::make_mod(const DimPoly& p, const DimPoly& d) {
  const DimRange dr = range_of(d);
  if (dr.hi <= 0) {
    return error(TENON_INVALID_ARGUMENT, "T0304",
                 "remainder of the dim `{}` by `{}`, which is never positive", text_of(p, 0),
                 text_of(d, 0));
  }
  if (divide_exactly(p, d)) return DimPoly{};
  const auto small = [&](const DimPoly& rest) {
    const DimRange r = range_of(rest);
    if (r.lo >= 0 && dr.lo > 0 && r.hi < dr.lo) return true;
    const MaybePoly gap = add(d, rest, -1), to = gap ? add(*gap, DimPoly{1, {}}, -1) : MaybePoly();
    return to && nonneg_by_ranges(rest) && nonneg_by_ranges(*to);
  };
  DimPoly rest = p;
  if (d.is_constant()) {
    DimPoly quotient, split;
    split_by_constant(p, d.constant, &quotient, &split);
    if (small(split)) return split;
    rest = residue(p, d.constant);
    // mod(g*a + g*k + c, g*b) == g * mod(a + k, b) + c, for 0 <= c < g
    const int64_t g = coefficient_gcd(rest, d.constant);
    if (g > 1 && !rest.is_constant()) {
      const int64_t left = floor_mod(rest.constant, g);
      rest.constant -= left;
      TENON_ASSIGN_OR_RETURN(const DimPoly part, make_mod(*divide_exactly(rest, DimPoly{g, {}}),
                                                          DimPoly{d.constant / g, {}}));
      const MaybePoly scaled = mul(part, DimPoly{g, {}});
      const MaybePoly sum = scaled ? add(*scaled, DimPoly{left, {}}, 1) : MaybePoly();
      return sum ? Result<DimPoly>(*sum) : Result<DimPoly>(overflow());
    }
  } else if (d.terms.size() == 1 && d.constant == 0) {
    rest = {p.constant, {}};
    for (const DimTerm& t : p.terms) {
      if (!divide_exactly(polynomial(t.coeff, t.atoms), d)) rest.terms.push_back(t);
    }
  }
  if (small(rest)) return rest;
  if (d.is_constant()) {
    if (const auto two = of_two_values(rest, [&](int64_t v) { return floor_mod(v, d.constant); }))
      return *two;
  }
  TENON_ASSIGN_OR_RETURN(const Dim a, intern(rest));
  TENON_ASSIGN_OR_RETURN(const Dim b, intern(d));
  return atom_poly(AtomKind::kMod, {a, b});
}

// ---- min and max ----

// An argument that is a min of its own, or a max where its sign turns it, gives its arguments: c *
// min(x, y) + r is min(c*x + r, c*y + r), and a max for a negative c.
void DimTable::flatten(AtomKind kind, const DimPoly& p, std::vector<DimPoly>* parts) const {
  const DimTerm* choice = nullptr;
  for (const DimTerm& t : p.terms) {
    const AtomKind inner = atoms_[t.atoms[0]].kind;
    if (t.atoms.size() != 1 || (inner != AtomKind::kMin && inner != AtomKind::kMax) ||
        (inner == kind) != (t.coeff > 0))
      continue;
    if (choice != nullptr) return parts->push_back(p);  // no law says which of two it would be
    choice = &t;
  }
  const MaybePoly rest =
      choice != nullptr ? add(p, polynomial(choice->coeff, choice->atoms), -1) : MaybePoly();
  if (!rest || parts_of(*rest) > kSpreadPartsMax) return parts->push_back(p);
  std::vector<DimPoly> inner;
  for (const Dim arg : atoms_[choice->atoms[0]].args) {
    const MaybePoly part = add(*rest, poly_of(arg), choice->coeff);
    if (!part) return parts->push_back(p);
    inner.push_back(*part);
  }
  parts->insert(parts->end(), inner.begin(), inner.end());
}

// Drops the arguments that another argument always beats. The first `before` come from the first
// operand, the others from the second one. Where there are many, only arguments of different
// operands are compared: those of one operand were compared when it was made.
void DimTable::drop_beaten(bool is_min, size_t before, std::vector<DimPoly>* parts) const {
  const bool proofs = parts->size() <= kComparedMax;
  std::vector<DimPoly> kept;
  std::vector<bool> gone(parts->size());  // beats no other part any more: proofs are bounded, and
                                          // three might drop each other in a ring
  for (size_t i = 0; i < parts->size(); ++i) {
    bool beaten = false;
    for (size_t j = 0; j < parts->size() && !beaten; ++j) {
      if (i == j || gone[j] || (!proofs && (i < before) == (j < before))) continue;
      const DimPoly &mine = (*parts)[i], &other = (*parts)[j];
      const MaybePoly diff = is_min ? add(mine, other, -1) : add(other, mine, -1);
      const MaybePoly back = diff ? mul(*diff, DimPoly{-1, {}}) : MaybePoly();
      if (!back) continue;
      const auto wins = [&](const DimPoly& by) {
        return range_of(by).lo >= 0 || (proofs && nonneg_by_ranges(by));
      };
      // Of two that bound each other, equal in value, the first stays.
      beaten = wins(*diff) && (j < i || !wins(*back));
    }
    gone[i] = beaten;
    if (!beaten) kept.push_back((*parts)[i]);
  }
  *parts = std::move(kept);
}

// What all arguments have in common: terms, and the least constant. Nothing where the rest of one
// does not fit in 64 bits.
DimPoly DimTable::shared_part(const std::vector<DimPoly>& parts) {
  DimPoly shared{parts[0].constant, {}};
  for (const DimPoly& p : parts) shared.constant = std::min(shared.constant, p.constant);
  for (const DimTerm& t : parts[0].terms) {
    const auto has = [&](const DimPoly& p) { return coefficient_of(p, t.atoms) == t.coeff; };
    if (std::all_of(parts.begin(), parts.end(), has)) shared.terms.push_back(t);
  }
  const bool fits = std::all_of(parts.begin(), parts.end(),
                                [&](const DimPoly& p) { return add(p, shared, -1).has_value(); });
  return fits ? shared : DimPoly{};
}

Result<DimPoly> DimTable::make_min_max(bool is_min, const DimPoly& a, const DimPoly& b) {
  const AtomKind kind = is_min ? AtomKind::kMin : AtomKind::kMax;
  std::vector<DimPoly> parts;
  flatten(kind, a, &parts);
  const size_t before = parts.size();
  flatten(kind, b, &parts);
  if (parts.size() > kDimTermsMax) return too_large("arguments of min or max", kDimTermsMax);
  drop_beaten(is_min, before, &parts);
  if (parts.size() == 1) return parts[0];
  const DimPoly outside = shared_part(parts);
  std::vector<Dim> args;
  int64_t g = 0;
  for (DimPoly& p : parts) {
    p = *add(p, outside, -1);
    g = std::gcd(coefficient_gcd(p, g), p.constant);
  }
  for (const DimPoly& p : parts) {
    TENON_ASSIGN_OR_RETURN(const Dim d, intern(g > 1 ? *divide_exactly(p, DimPoly{g, {}}) : p));
    args.push_back(d);
  }
  std::sort(args.begin(), args.end(),
            std::greater<>());  // constants first, then in order of making
  TENON_ASSIGN_OR_RETURN(const DimPoly made, atom_poly(kind, std::move(args)));
  const MaybePoly scaled = mul(made, DimPoly{g, {}});
  const MaybePoly sum = scaled ? add(outside, *scaled, 1) : MaybePoly();
  if (!sum) return why_not(outside, made);
  const MaybePoly settled = settle(*sum);
  return settled ? *settled : *sum;
}

}  // namespace tenon::ir
