// Polynomials, hash-consing and the making of dims. The laws of floordiv, mod, min and max are in
// dims_laws.cpp, comparing and facts in dims_compare.cpp.
#include "core/ir/dims/dims.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/base/intern.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/dims/dims_internal.h"

namespace tenon::ir {
namespace {

using arithmetic::mix;

uint64_t poly_hash(const DimPoly& p) {
  uint64_t h = mix(1, static_cast<uint64_t>(p.constant));
  for (const DimTerm& t : p.terms) {
    h = mix(h, static_cast<uint64_t>(t.coeff));
    for (uint32_t a : t.atoms) h = mix(h, a);
    h = mix(h, 0xabcd);
  }
  return h;
}

bool within_limits(const DimPoly& p) {
  if (p.terms.size() > kDimTermsMax) return false;
  return std::all_of(p.terms.begin(), p.terms.end(),
                     [](const DimTerm& t) { return t.atoms.size() <= kDimDegreeMax; });
}

}  // namespace

Status overflow() {
  return error(TENON_OUT_OF_RANGE, "T0303", "a symbolic dim does not fit in 64 bits");
}

Status too_large(std::string_view what, uint32_t limit) {
  return error(TENON_RESOURCE_EXHAUSTED, "T0305", "a symbolic dim has more than {} {}", limit,
               what);
}

Status why_not(const DimPoly& a, const DimPoly& b) {
  if (a.terms.size() * std::max<size_t>(b.terms.size(), 1) > kDimTermsMax ||
      a.terms.size() + b.terms.size() > kDimTermsMax) {
    return too_large("terms", kDimTermsMax);
  }
  for (const DimTerm& s : a.terms) {
    for (const DimTerm& t : b.terms) {
      if (s.atoms.size() + t.atoms.size() > kDimDegreeMax)
        return too_large("factors", kDimDegreeMax);
    }
  }
  return overflow();
}

// ---- Polynomials ----
DimTable::MaybePoly DimTable::add(const DimPoly& a, const DimPoly& b, int64_t scale) {
  DimPoly out;
  int64_t c;
  if (__builtin_mul_overflow(b.constant, scale, &c)) return {};
  if (__builtin_add_overflow(a.constant, c, &out.constant)) return {};
  auto i = a.terms.begin();
  auto j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    const bool take_a = j == b.terms.end() || (i != a.terms.end() && i->atoms <= j->atoms);
    const bool take_b = i == a.terms.end() || (j != b.terms.end() && j->atoms <= i->atoms);
    DimTerm t{0, take_a ? i->atoms : j->atoms};
    if (take_a) t.coeff = i->coeff;
    if (take_b) {
      if (__builtin_mul_overflow(j->coeff, scale, &c)) return {};
      if (__builtin_add_overflow(t.coeff, c, &t.coeff)) return {};
    }
    if (take_a) ++i;
    if (take_b) ++j;
    if (t.coeff != 0) out.terms.push_back(std::move(t));
  }
  if (!within_limits(out)) return {};
  return out;
}

DimTable::MaybePoly DimTable::mul(const DimPoly& a, const DimPoly& b) {
  DimPoly out;
  if (__builtin_mul_overflow(a.constant, b.constant, &out.constant)) return {};
  const DimTerm one_a{a.constant, {}}, one_b{b.constant, {}};
  for (size_t i = 0; i <= a.terms.size(); ++i) {
    const DimTerm& s = i < a.terms.size() ? a.terms[i] : one_a;
    DimPoly row;
    for (size_t j = 0; j <= b.terms.size(); ++j) {
      if (i == a.terms.size() && j == b.terms.size()) break;
      const DimTerm& t = j < b.terms.size() ? b.terms[j] : one_b;
      DimTerm p;
      if (__builtin_mul_overflow(s.coeff, t.coeff, &p.coeff)) return {};
      if (p.coeff == 0) continue;
      p.atoms.resize(s.atoms.size() + t.atoms.size());
      std::merge(s.atoms.begin(), s.atoms.end(), t.atoms.begin(), t.atoms.end(), p.atoms.begin());
      row.terms.push_back(std::move(p));
    }
    std::sort(row.terms.begin(), row.terms.end(),
              [](const DimTerm& x, const DimTerm& y) { return x.atoms < y.atoms; });
    MaybePoly sum = add(out, row, 1);
    if (!sum) return {};
    out = std::move(*sum);
  }
  return out;
}

// p / d where p == q * d with a polynomial q. Leading-term division in the order of the terms.
DimTable::MaybePoly DimTable::divide_exactly(const DimPoly& p, const DimPoly& d) {
  if (d.is_constant()) {
    if (d.constant == 0 || p.constant % d.constant != 0) return {};
    DimPoly q{p.constant / d.constant, p.terms};
    for (DimTerm& t : q.terms) {
      if (t.coeff % d.constant != 0) return {};
      t.coeff /= d.constant;
    }
    return q;
  }
  // The term with most factors leads; among equals, the last in order. Any admissible monomial
  // order guarantees termination, and this is one: degree first, then lexicographic.
  auto leading = [](const DimPoly& x) -> const DimTerm& {
    return *std::max_element(x.terms.begin(), x.terms.end(),
                             [](const DimTerm& s, const DimTerm& t) {
                               if (s.atoms.size() != t.atoms.size())
                                 return s.atoms.size() < t.atoms.size();
                               return s.atoms > t.atoms;
                             });
  };
  const DimTerm lead = leading(d);
  DimPoly rest = p, q;
  for (uint32_t step = 0; step <= kDimTermsMax; ++step) {
    if (rest.is_constant()) return rest.constant == 0 ? MaybePoly(q) : MaybePoly();
    const DimTerm t = leading(rest);
    if (t.coeff % lead.coeff != 0) return {};
    if (t.atoms.size() < lead.atoms.size()) return {};
    if (!std::includes(t.atoms.begin(), t.atoms.end(), lead.atoms.begin(), lead.atoms.end()))
      return {};
    DimPoly piece;
    DimTerm factor{t.coeff / lead.coeff, {}};
    std::set_difference(t.atoms.begin(), t.atoms.end(), lead.atoms.begin(), lead.atoms.end(),
                        std::back_inserter(factor.atoms));
    if (factor.atoms.empty()) {
      piece.constant = factor.coeff;
    } else {
      piece.terms.push_back(std::move(factor));
    }
    MaybePoly product = mul(piece, d);
    if (!product) return {};
    MaybePoly next = add(rest, *product, -1);
    MaybePoly sum = add(q, piece, 1);
    if (!next || !sum) return {};
    rest = std::move(*next);
    q = std::move(*sum);
  }
  return {};
}

// ---- Interning ----
DimPoly DimTable::poly_of(Dim dim) const {
  if (dim >= 0) return DimPoly{dim, {}};
  return entries_[static_cast<size_t>(~dim)].poly;
}

std::optional<Dim> DimTable::lookup(const DimPoly& poly) const {
  if (poly.is_constant() && poly.constant >= 0) return poly.constant;
  const auto it = entry_by_hash_.find(poly_hash(poly));
  if (it == entry_by_hash_.end()) return {};
  for (uint32_t i = it->second; i != TENON_NONE; i = entries_[i].next) {
    if (entries_[i].poly == poly) return ~static_cast<Dim>(i);
  }
  return {};
}

Result<Dim> DimTable::intern(const DimPoly& poly) {
  if (const auto found = lookup(poly)) return *found;
  if (read_only_) {
    return error(TENON_FAILED_PRECONDITION, "T0302", "the graph is frozen and has no such dim");
  }
  if (entries_.size() >= kDimExpressionsMax)
    return too_large("expressions in its graph", kDimExpressionsMax);
  if (parts_of(poly) > kDimPartsMax) return too_large("parts", kDimPartsMax);
  const uint32_t index = static_cast<uint32_t>(entries_.size());
  Entry entry{poly};
  auto [it, inserted] = entry_by_hash_.try_emplace(poly_hash(poly), index);
  if (!inserted) {
    entry.next = it->second;
    it->second = index;
  }
  entries_.push_back(std::move(entry));
  return ~static_cast<Dim>(index);
}

std::optional<uint32_t> DimTable::atom_lookup(AtomKind kind, const std::vector<Dim>& args) const {
  uint64_t h = mix(7, static_cast<uint64_t>(kind));
  for (Dim d : args) h = mix(h, static_cast<uint64_t>(d));
  const auto it = atom_by_hash_.find(h);
  if (it == atom_by_hash_.end()) return {};
  for (uint32_t a : it->second) {
    if (atoms_[a].kind == kind && atoms_[a].args == args) return a;
  }
  return {};
}

uint32_t DimTable::atom_depth(const DimPoly& poly) const {
  uint32_t depth = 0;
  for (const DimTerm& t : poly.terms) {
    for (uint32_t a : t.atoms) depth = std::max(depth, atoms_[a].depth);
  }
  return depth;
}

// Counts the parts of the tree. A dim that holds another twice doubles the count at each level, and
// walking a dim takes time proportional to its tree.
uint64_t DimTable::parts_of(const DimPoly& poly) const {
  uint64_t parts = 1;
  for (const DimTerm& t : poly.terms) {
    for (uint32_t a : t.atoms) parts += atoms_[a].parts;
  }
  return parts;
}

Result<uint32_t> DimTable::atom(AtomKind kind, std::vector<Dim> args) {
  if (const auto found = atom_lookup(kind, args)) return *found;
  if (read_only_) {
    return error(TENON_FAILED_PRECONDITION, "T0302", "the graph is frozen and has no such dim");
  }
  Atom atom;
  atom.kind = kind;
  uint64_t parts = 1;
  for (Dim d : args) {
    atom.depth = std::max(atom.depth, atom_depth(poly_of(d)) + 1);
    parts += parts_of(poly_of(d));
  }
  if (atom.depth > kDimDepthMax) return too_large("levels of nesting", kDimDepthMax);
  if (parts > kDimPartsMax) return too_large("parts", kDimPartsMax);
  atom.parts = static_cast<uint32_t>(parts);
  uint64_t h = mix(7, static_cast<uint64_t>(kind));
  for (Dim d : args) h = mix(h, static_cast<uint64_t>(d));
  const uint32_t index = static_cast<uint32_t>(atoms_.size());
  atom.args = std::move(args);
  atoms_.push_back(std::move(atom));
  atom_by_hash_[h].push_back(index);
  look_at_atom(index);
  if (canonical_) {
    DimPoly canon = canon_of_atom(index);
    atoms_[index].canon = std::move(canon);
  }
  return index;
}

Result<DimPoly> DimTable::atom_poly(AtomKind kind, std::vector<Dim> args) {
  TENON_ASSIGN_OR_RETURN(const uint32_t index, atom(kind, std::move(args)));
  DimPoly out;
  out.terms.push_back({1, {index}});
  return out;
}

Result<Dim> DimTable::constant(int64_t value) {
  if (value >= 0) return value;
  return intern(DimPoly{value, {}});
}

// ---- Making ----

Result<DimPoly> DimTable::make_poly(uint32_t op, const DimPoly& a, const DimPoly& b) {
  MaybePoly out;
  switch (op) {
    case TENON_DIM_ADD:
      out = add(a, b, 1);
      break;
    case TENON_DIM_SUB:
      out = add(a, b, -1);
      break;
    case TENON_DIM_MUL:
      out = mul(a, b);
      break;
    case TENON_DIM_FLOORDIV:
      return make_floordiv(a, b);
    case TENON_DIM_MOD:
      return make_mod(a, b);
    case TENON_DIM_MIN:
      return make_min_max(true, a, b);
    case TENON_DIM_MAX:
      return make_min_max(false, a, b);
    default:
      return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not an operation on dims", op);
  }
  if (out) out = settle(std::move(*out));
  if (!out) return why_not(a, b);
  return *out;
}

Result<Dim> DimTable::make(uint32_t op, Dim a, Dim b) {
  if (!valid(a) || !valid(b)) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not a dim of this graph",
                 valid(a) ? b : a);
  }
  TENON_ASSIGN_OR_RETURN(const DimPoly made, make_poly(op, poly_of(a), poly_of(b)));
  return intern(made);
}

Result<Dim> DimTable::find(uint32_t op, Dim a, Dim b) const {
  // On a read-only table make() changes nothing: intern and atom refuse instead of adding.
  if (!read_only_) return internal_error("DimTable::find on a table that is not frozen");
  return const_cast<DimTable*>(this)->make(op, a, b);
}

// ---- Symbols ----
std::string DimTable::unique_name(std::string_view wanted) const {
  std::string name(wanted.empty() ? std::string_view("d") : wanted);
  if (!wanted.empty() && !symbol_by_name_.contains(name)) return name;
  // Probing from the number of symbols keeps a thousand names of one stem linear.
  for (uint64_t n = wanted.empty() ? symbols_.size() : 1;; ++n) {
    std::string next = wanted.empty() ? "d" + std::to_string(n) : name + "_" + std::to_string(n);
    if (!symbol_by_name_.contains(next)) return next;
    if (n == 8) n = symbols_.size();
  }
}

Result<Symbol> DimTable::symbol_add(std::string_view name, int64_t lo, int64_t hi,
                                    int64_t multiple_of, int64_t hint) {
  if (read_only_) return error(TENON_FAILED_PRECONDITION, "T0302", "the graph is frozen");
  if (lo > hi || multiple_of < 1 || hint < -1) {
    return error(TENON_INVALID_ARGUMENT, "T0307",
                 "symbol {}: range [{}, {}] with multiples of {} is empty", quoted(name), lo, hi,
                 multiple_of);
  }
  if (symbols_.size() >= kDimExpressionsMax)
    return too_large("symbols in its graph", kDimExpressionsMax);
  if (symbol_by_name_.contains(std::string(name))) {
    return error(TENON_ALREADY_EXISTS, "T0307", "the symbol {} is defined already", quoted(name));
  }
  const Symbol index = static_cast<Symbol>(symbols_.size());
  const uint32_t atom_index = static_cast<uint32_t>(atoms_.size());
  Atom atom;
  atom.kind = AtomKind::kSymbol;
  atom.symbol = index;
  atoms_.push_back(std::move(atom));
  symbol_atom_.push_back(atom_index);
  SymbolData data;
  data.name = tenon::intern(name);
  data.lo = lo;
  data.hi = hi;
  data.multiple_of = multiple_of;
  data.hint = hint;
  DimPoly poly;
  poly.terms.push_back({1, {atom_index}});
  symbols_.push_back(data);
  symbol_by_name_.emplace(name, index);
  TENON_ASSIGN_OR_RETURN(symbols_[index].dim, intern(poly));
  return index;
}

Status DimTable::symbol_rename(Symbol symbol, std::string_view name) {
  const std::string old(sym_text(symbols_[symbol].name));
  if (old == name) return {};
  if (symbol_by_name_.contains(std::string(name))) {
    return error(TENON_ALREADY_EXISTS, "T0307", "the symbol {} is defined already", quoted(name));
  }
  symbol_by_name_.erase(old);
  symbol_by_name_.emplace(name, symbol);
  symbols_[symbol].name = tenon::intern(name);
  return {};
}

void DimTable::symbol_retire(Symbol symbol) {
  const auto it = symbol_by_name_.find(std::string(sym_text(symbols_[symbol].name)));
  if (it != symbol_by_name_.end() && it->second == symbol) symbol_by_name_.erase(it);
}

std::optional<Symbol> DimTable::symbol_find(std::string_view name) const {
  const auto it = symbol_by_name_.find(std::string(name));
  return it == symbol_by_name_.end() ? std::nullopt : std::optional<Symbol>(it->second);
}

// ---- Import ----
Result<Dim> DimTable::import(const DimTable& from, Dim dim, std::span<const Dim> symbol_map) {
  if (dim >= 0) return dim;
  const DimPoly source = from.poly_of(dim);
  DimPoly sum{source.constant, {}};
  for (const DimTerm& term : source.terms) {
    DimPoly product{term.coeff, {}};
    for (uint32_t a : term.atoms) {
      const AtomKind kind = from.atoms_[a].kind;
      DimPoly factor;
      if (kind == AtomKind::kSymbol) {
        const Symbol s = from.atoms_[a].symbol;
        if (s >= symbol_map.size() || !valid(symbol_map[s])) {
          return error(TENON_INVALID_ARGUMENT, "T0318", "the symbol {} has no counterpart here",
                       quoted(sym_text(from.symbols_[s].name)));
        }
        factor = poly_of(symbol_map[s]);
      } else {
        const std::vector<Dim> args = from.atoms_[a].args;
        std::vector<DimPoly> parts;
        for (Dim d : args) {
          TENON_ASSIGN_OR_RETURN(const Dim imported, import(from, d, symbol_map));
          parts.push_back(poly_of(imported));
        }
        const uint32_t op = kind == AtomKind::kFloorDiv ? TENON_DIM_FLOORDIV
                            : kind == AtomKind::kMod    ? TENON_DIM_MOD
                            : kind == AtomKind::kMin    ? TENON_DIM_MIN
                                                        : TENON_DIM_MAX;
        factor = parts[0];
        for (size_t i = 1; i < parts.size(); ++i) {
          TENON_ASSIGN_OR_RETURN(factor, make_poly(op, factor, parts[i]));
        }
      }
      TENON_ASSIGN_OR_RETURN(product, make_poly(TENON_DIM_MUL, product, factor));
    }
    TENON_ASSIGN_OR_RETURN(sum, make_poly(TENON_DIM_ADD, sum, product));
  }
  return intern(sum);
}

// ---- Walking ----
void DimTable::collect_symbols(const DimPoly& poly, std::vector<Symbol>* out) const {
  for (const DimTerm& t : poly.terms) {
    for (uint32_t a : t.atoms) {
      const Atom& atom = atoms_[a];
      if (atom.kind == AtomKind::kSymbol) {
        if (std::find(out->begin(), out->end(), atom.symbol) == out->end())
          out->push_back(atom.symbol);
      } else {
        for (Dim d : atom.args) collect_symbols(poly_of(d), out);
      }
    }
  }
}

void DimTable::symbols_of(Dim dim, std::vector<Symbol>* out) const {
  if (dim < 0) collect_symbols(entries_[static_cast<size_t>(~dim)].poly, out);
}

bool DimTable::mentions_symbols(Dim dim) const {
  return dim < 0 && !entries_[static_cast<size_t>(~dim)].poly.is_constant();
}

Status DimTable::evaluate_atom(const Atom& atom, std::span<const int64_t> values,
                               int64_t* out) const {
  if (atom.kind == AtomKind::kSymbol) {
    if (atom.symbol >= values.size()) {
      return error(TENON_INVALID_ARGUMENT, "T0301", "the symbol {} has no value",
                   quoted(sym_text(symbols_[atom.symbol].name)));
    }
    *out = values[atom.symbol];
    return {};
  }
  int64_t result;
  TENON_RETURN_IF_ERROR(evaluate(atom.args[0], values, &result));
  for (size_t i = 1; i < atom.args.size(); ++i) {
    int64_t b;
    TENON_RETURN_IF_ERROR(evaluate(atom.args[i], values, &b));
    if (atom.kind == AtomKind::kMin) {
      result = std::min(result, b);
    } else if (atom.kind == AtomKind::kMax) {
      result = std::max(result, b);
    } else if (b <= 0) {
      return error(TENON_INVALID_ARGUMENT, "T0304", "the divisor of `{}` is {} here",
                   text(atom.args[0]) + " / " + text(atom.args[1]), b);
    } else {
      result = atom.kind == AtomKind::kFloorDiv ? floor_div(result, b) : floor_mod(result, b);
    }
  }
  *out = result;
  return {};
}

Status DimTable::evaluate_poly(const DimPoly& poly, std::span<const int64_t> values,
                               int64_t* out) const {
  int64_t sum = poly.constant;
  for (const DimTerm& t : poly.terms) {
    int64_t product = t.coeff;
    for (uint32_t a : t.atoms) {
      int64_t v;
      TENON_RETURN_IF_ERROR(evaluate_atom(atoms_[a], values, &v));
      if (__builtin_mul_overflow(product, v, &product)) return overflow();
    }
    if (__builtin_add_overflow(sum, product, &sum)) return overflow();
  }
  *out = sum;
  return {};
}

Status DimTable::evaluate(Dim dim, std::span<const int64_t> values, int64_t* out) const {
  if (dim >= 0) {
    *out = dim;
    return {};
  }
  if (!valid(dim))
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not a dim of this graph", dim);
  return evaluate_poly(entries_[static_cast<size_t>(~dim)].poly, values, out);
}

uint64_t DimTable::hash_of(const DimPoly& poly, std::span<const uint64_t> symbol_hash) const {
  uint64_t sum = mix(3, static_cast<uint64_t>(poly.constant));
  for (const DimTerm& t : poly.terms) {
    uint64_t product = 0;
    for (uint32_t a : t.atoms) {
      const Atom& atom = atoms_[a];
      uint64_t h = mix(11, static_cast<uint64_t>(atom.kind));
      if (atom.kind == AtomKind::kSymbol) {
        h = mix(h, atom.symbol < symbol_hash.size() ? symbol_hash[atom.symbol] : 0);
      } else if (atom.kind == AtomKind::kMin || atom.kind == AtomKind::kMax) {
        uint64_t any_order = 0;
        for (Dim d : atom.args) any_order += mix(13, structural_hash(d, symbol_hash));
        h = mix(h, any_order);
      } else {
        for (Dim d : atom.args) h = mix(h, structural_hash(d, symbol_hash));
      }
      product += mix(17, h);
    }
    sum += mix(mix(19, static_cast<uint64_t>(t.coeff)), product);
  }
  return sum;
}

uint64_t DimTable::structural_hash(Dim dim, std::span<const uint64_t> symbol_hash) const {
  return hash_of(poly_of(dim), symbol_hash);
}

// ---- Text ----
std::string DimTable::text_of_atom(uint32_t index) const {
  const Atom& atom = atoms_[index];
  switch (atom.kind) {
    case AtomKind::kSymbol:
      return symbol_text(sym_text(symbols_[atom.symbol].name));
    case AtomKind::kFloorDiv:
    case AtomKind::kMod: {
      const char* word = atom.kind == AtomKind::kFloorDiv ? " floordiv " : " mod ";
      return "(" + text_of(poly_of(atom.args[0]), 2) + word + text_of(poly_of(atom.args[1]), 2) +
             ")";
    }
    default: {
      std::vector<std::string> parts;
      for (Dim d : atom.args) parts.push_back(text_of(poly_of(d), 0));
      std::sort(parts.begin(), parts.end());
      std::string out = atom.kind == AtomKind::kMin ? "min(" : "max(";
      for (size_t i = 0; i < parts.size(); ++i) out += (i ? ", " : "") + parts[i];
      return out + ")";
    }
  }
}

// precedence 0: anywhere; 1: a factor of a product; 2: an operand of floordiv and mod.
std::string DimTable::text_of(const DimPoly& poly, int precedence) const {
  struct Piece {
    size_t degree;
    std::string product;
    int64_t coeff;
  };
  std::vector<Piece> pieces;
  for (const DimTerm& t : poly.terms) {
    std::vector<std::string> factors;
    for (uint32_t a : t.atoms) factors.push_back(text_of_atom(a));
    std::sort(factors.begin(), factors.end());
    std::string product;
    for (const std::string& f : factors) product += (product.empty() ? "" : "*") + f;
    pieces.push_back({t.atoms.size(), std::move(product), t.coeff});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& x, const Piece& y) {
    return x.degree != y.degree ? x.degree > y.degree : x.product < y.product;
  });
  std::string out;
  for (const Piece& p : pieces) {
    // -(x) of the smallest coefficient has no positive form; print the sign with the number.
    const bool minus = p.coeff < 0 && p.coeff != INT64_MIN;
    if (out.empty()) {
      if (p.coeff == -1)
        out += "-";
      else if (p.coeff != 1)
        out += std::to_string(p.coeff) + "*";
    } else {
      out += minus ? " - " : " + ";
      const int64_t c = minus ? -p.coeff : p.coeff;
      if (c != 1) out += std::to_string(c) + "*";
    }
    out += p.product;
  }
  if (pieces.empty()) return std::to_string(poly.constant);
  if (poly.constant > 0) out += " + " + std::to_string(poly.constant);
  if (poly.constant < 0) {
    out += poly.constant == INT64_MIN ? " + " + std::to_string(poly.constant)
                                      : " - " + std::to_string(-poly.constant);
  }
  const bool single = pieces.size() == 1 && poly.constant == 0;
  const bool atom = single && pieces[0].coeff == 1 && pieces[0].degree == 1;
  if (precedence == 0 || atom || (precedence == 1 && single)) {
    // A lone floordiv or mod needs no parentheses at top level.
    if (precedence == 0 && atom && out.front() == '(' && out.back() == ')') {
      return out.substr(1, out.size() - 2);
    }
    return out;
  }
  return "(" + out + ")";
}

std::string DimTable::text(Dim dim) const {
  return dim >= 0 ? std::to_string(dim) : valid(dim) ? text_of(poly_of(dim), 0) : "?";
}

[[gnu::used, gnu::retain]] void DimTable::dump(Dim dim) const {
  std::fprintf(stderr, "%s\n", text(dim).c_str());
}

// A symbol's name as .tir writes it: bare if it is a word, else quoted.
std::string symbol_text(std::string_view name) {
  static constexpr std::string_view kWords[] = {"floordiv", "mod", "min", "max", "in"};
  bool bare = !name.empty() && (name[0] < '0' || name[0] > '9');
  for (char c : name) {
    bare = bare &&
           ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_');
  }
  for (std::string_view w : kWords) bare = bare && name != w;
  return bare ? std::string(name) : string_text(name);
}

std::string string_text(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20 || u == 0x7f) {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  if (!is_valid_utf8(text)) {
    // Bytes that are not UTF-8 are all escaped, so that the file stays UTF-8.
    out = "\"";
    for (const char c : text) {
      const unsigned char u = static_cast<unsigned char>(c);
      if (u >= 0x20 && u < 0x7f && c != '"' && c != '\\') {
        out += c;
      } else {
        out += "\\x";
        out += kHex[u >> 4];
        out += kHex[u & 15];
      }
    }
  }
  return out + "\"";
}

// ---- Views ----
// Splits one polynomial into an operation on two smaller ones, which are interned.
void DimTable::build_view(uint32_t index) {
  if (entries_[index].view_op != TENON_NONE) return;
  const DimPoly poly = entries_[index].poly;
  uint32_t op = TENON_DIM_CONSTANT;
  Dim a = 0, b = 0;
  auto made = [this](const DimPoly& p) {
    Result<Dim> r = intern(p);
    TENON_CHECK(r.ok(), "{}", r.status().text());
    return *r;
  };
  if (!poly.terms.empty()) {
    const DimTerm& first = poly.terms.front();
    if (poly.terms.size() > 1 || poly.constant != 0) {
      op = TENON_DIM_ADD;
      a = made(DimPoly{0, {first}});
      b = made(DimPoly{poly.constant, {poly.terms.begin() + 1, poly.terms.end()}});
    } else if (first.coeff != 1) {
      op = TENON_DIM_MUL;
      a = made(DimPoly{first.coeff, {}});
      b = made(DimPoly{0, {{1, first.atoms}}});
    } else if (first.atoms.size() > 1) {
      op = TENON_DIM_MUL;
      a = made(DimPoly{0, {{1, {first.atoms[0]}}}});
      b = made(DimPoly{0, {{1, {first.atoms.begin() + 1, first.atoms.end()}}}});
    } else {
      const Atom atom = atoms_[first.atoms[0]];
      static constexpr uint32_t kOps[] = {TENON_DIM_SYMBOL, TENON_DIM_FLOORDIV, TENON_DIM_MOD,
                                          TENON_DIM_MIN, TENON_DIM_MAX};
      op = kOps[static_cast<size_t>(atom.kind)];
      if (atom.kind == AtomKind::kSymbol) {
        a = static_cast<Dim>(atom.symbol);
      } else {
        a = atom.args[0];
        b = atom.args[1];
        if (atom.args.size() > 2) {
          Result<DimPoly> rest = atom_poly(atom.kind, {atom.args.begin() + 1, atom.args.end()});
          TENON_CHECK(rest.ok(), "{}", rest.status().text());
          b = made(*rest);
        }
      }
    }
  }
  entries_[index].view_a = a;
  entries_[index].view_b = b;
  entries_[index].view_op = op;
}

void DimTable::freeze_views() {
  if (read_only_) return;
  // Views add sub-dims, which are visited in turn; each is smaller than its parent, so this
  // terminates.
  for (uint32_t i = 0; i < entries_.size(); ++i) build_view(i);
  read_only_ = true;
}

void DimTable::view(Dim dim, tenon_dim_view_t* out) {
  *out = {};
  out->size_bytes = sizeof *out;
  const DimRange r = range(dim);
  out->lo = r.lo;
  out->hi = r.hi;
  out->multiple_of = multiple_of(dim);
  out->symbol = TENON_NONE;
  if (dim >= 0) {
    out->op = TENON_DIM_CONSTANT;
    out->constant = dim;
    return;
  }
  const uint32_t index = static_cast<uint32_t>(~dim);
  if (!read_only_) build_view(index);
  const Entry& e = entries_[index];
  out->op = e.view_op;
  if (e.view_op == TENON_DIM_SYMBOL) {
    out->symbol = static_cast<Symbol>(e.view_a);
  } else if (e.view_op == TENON_DIM_CONSTANT) {
    out->constant = e.poly.constant;
  } else {
    out->a = e.view_a;
    out->b = e.view_b;
  }
}

}  // namespace tenon::ir
