// Symbolic dims of one graph: canonical polynomials over symbols and over floordiv, mod, min and
// max of polynomials. They are hash-consed, so equal numbers mean provably equal dims. The table
// also holds their ranges, divisibility, and the facts asserted about them.
//
// A dim is tenon_dim_t: a value >= 0 is that constant, a value < 0 is ~index into this table.
// Arithmetic on constants never touches the table.
//
// Threads: one at a time; const members are safe on a table that no thread changes. After
// freeze_views() no const member writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tenon/abi/graph.h>
#include <tenon/cpp/arithmetic.hpp>
#include "core/base/errors/status.h"

namespace tenon::ir {

using Dim = tenon_dim_t;
using Symbol = tenon_symbol_t;

// Limits of one table. A model that needs more is refused with the limit's name.
inline constexpr uint32_t kDimTermsMax = 128;  // terms of one polynomial
inline constexpr uint32_t kDimDegreeMax = 16;  // factors of one term
inline constexpr uint32_t kDimDepthMax = 32;   // nesting: floordiv inside min inside mod ...
inline constexpr uint32_t kDimPartsMax =
    4096;  // of the expression written out as a tree: shared parts count each time
inline constexpr uint32_t kDimLawPartsMax =
    128;  // parts up to which laws that search or copy are tried
inline constexpr uint32_t kDimExpressionsMax = 1u << 20;
inline constexpr uint32_t kDimFactsMax = 1u << 12;
// Facts beyond these limits are kept for run-time checks, but are not used in proofs: a file of
// facts must not cost more than it is worth.
inline constexpr uint32_t kDimUsedTermsMax = 12;  // terms of a fact
inline constexpr uint32_t kDimUsedFactsMax =
    256;  // inequalities, and equalities that cannot be solved for an atom
inline constexpr uint32_t kDimRefreshMax = 20000;  // expressions rewritten by equalities, in total

// A range; INT64_MIN and INT64_MAX mean unbounded on that side.
struct DimRange {
  int64_t lo = INT64_MIN;
  int64_t hi = INT64_MAX;
};

// coeff * product of atoms. Atoms are indices into the table's atoms, sorted; repeated ones are
// powers.
struct DimTerm {
  int64_t coeff = 0;
  std::vector<uint32_t> atoms;
  bool operator==(const DimTerm&) const = default;
};

// constant + sum of terms; terms are sorted by their atoms, unique, with non-zero coefficients.
struct DimPoly {
  int64_t constant = 0;
  std::vector<DimTerm> terms;
  bool is_constant() const { return terms.empty(); }
  bool operator==(const DimPoly&) const = default;
};

using arithmetic::relation_holds;

// An assertion that ranges of single symbols cannot express.
struct DimFact {
  uint32_t rel;  // TENON_REL_*
  Dim a, b;
  uint32_t place = 0;  // where it was asserted: a location of the graph; 0: unknown
};

struct SymbolData {
  tenon_sym_t name = 0;
  int64_t lo = 0, hi = INT64_MAX, multiple_of = 1, hint = -1;
  uint32_t lo_place = 0, hi_place = 0, multiple_place = 0;  // as in DimFact
  tenon_node_t node = TENON_NONE;
  tenon_region_t region = TENON_NONE;
  Dim dim = 0;
};

class DimTable {
 public:
  // ---- Making ----
  // Negative constants become table entries; fails only if the table is full or frozen.
  Result<Dim> constant(int64_t value);
  // OUT_OF_RANGE on overflow, INVALID_ARGUMENT for a divisor that is never positive or a bad op,
  // RESOURCE_EXHAUSTED for one of the limits above.
  Result<Dim> make(uint32_t op, Dim a, Dim b);
  // Like make, but only finds existing dims: for frozen graphs. FAILED_PRECONDITION if there is
  // none.
  Result<Dim> find(uint32_t op, Dim a, Dim b) const;
  // lo <= hi, multiple_of >= 1, hint -1 or >= 0. The name must be unique already (see unique_name).
  Result<Symbol> symbol_add(std::string_view name, int64_t lo, int64_t hi, int64_t multiple_of,
                            int64_t hint);
  std::string unique_name(std::string_view wanted) const;
  Status symbol_rename(Symbol symbol, std::string_view name);  // ALREADY_EXISTS if taken
  // Releases the name for reuse; the index stays.
  void symbol_retire(Symbol symbol);
  std::optional<Symbol> symbol_find(std::string_view name) const;
  // The dim of `from` in this table with symbol i replaced by symbol_map[i]. `from` may be this
  // table.
  Result<Dim> import(const DimTable& from, Dim dim, std::span<const Dim> symbol_map);

  // ---- Queries ----
  bool valid(Dim dim) const { return dim >= 0 || ~dim < static_cast<int64_t>(entries_.size()); }
  uint32_t symbol_count() const { return static_cast<uint32_t>(symbols_.size()); }
  uint32_t expression_count() const { return static_cast<uint32_t>(entries_.size()); }
  const SymbolData& symbol(Symbol s) const { return symbols_[s]; }
  SymbolData& symbol(Symbol s) { return symbols_[s]; }
  DimRange range(Dim dim) const;
  int64_t multiple_of(Dim dim) const;                  // 2^62 for 0
  uint32_t compare(uint32_t rel, Dim a, Dim b) const;  // TENON_NO, YES, MAYBE
  bool equal(Dim a, Dim b) const { return compare(TENON_REL_EQ, a, b) == TENON_YES; }
  // values: one per symbol; OUT_OF_RANGE on overflow, INVALID_ARGUMENT for a division by <= 0 or a
  // symbol without a value.
  Status evaluate(Dim dim, std::span<const int64_t> values, int64_t* out) const;
  // One way to write the dim as a tree. Makes the sub-dims that it names; on a frozen table
  // freeze_views has already made them.
  void view(Dim dim, tenon_dim_view_t* out);
  void freeze_views();
  void thaw() { read_only_ = false; }  // for a copy
  // Appends the symbols that the dim mentions, each once per call.
  void symbols_of(Dim dim, std::vector<Symbol>* out) const;
  bool mentions_symbols(Dim dim) const;
  // The dim as .tir writes it. Terms are ordered by their text, so that printing does not depend on
  // history.
  std::string text(Dim dim) const;
  // The text on stderr, for a debugger: `call graph->dims_.dump(d)`. The library keeps it uncalled.
  void dump(Dim dim) const;
  // A hash that depends on structure only; symbol_hash gives the hash of each symbol.
  uint64_t structural_hash(Dim dim, std::span<const uint64_t> symbol_hash) const;

  // ---- Facts ----
  // INVALID_ARGUMENT if it contradicts what is known. Facts that are already known are not recorded
  // again.
  Status assert_fact(uint32_t rel, Dim a, Dim b);
  // The same, but also keeps facts that are already known, once: what a file states is written out
  // again.
  Status record_fact(uint32_t rel, Dim a, Dim b);
  const std::vector<DimFact>& facts() const { return facts_; }
  // The location in the user's model that assertions from now on come from.
  void set_place(uint32_t place) { place_ = place; }

 private:
  enum class AtomKind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };
  struct Atom {
    AtomKind kind;
    Symbol symbol = 0;
    uint32_t depth = 0;
    uint32_t parts = 1;
    std::vector<Dim> args;         // sorted for min and max
    std::optional<DimPoly> canon;  // what it equals under the asserted equalities, if that differs
    DimRange range;        // cached: symbols' ranges only shrink, so an old range stays true
    int64_t multiple = 1;  // cached likewise
  };
  struct Entry {
    DimPoly poly;
    uint32_t next = TENON_NONE;  // next entry of equal hash
    uint32_t view_op = TENON_NONE;
    Dim view_a = 0, view_b = 0;
  };
  using MaybePoly = std::optional<DimPoly>;  // empty: overflow or a limit
  class Builder;
  friend class Builder;
  class Join;

  DimPoly poly_of(Dim dim) const;
  Result<Dim> intern(const DimPoly& poly);
  std::optional<Dim> lookup(const DimPoly& poly) const;
  Result<uint32_t> atom(AtomKind kind, std::vector<Dim> args);
  std::optional<uint32_t> atom_lookup(AtomKind kind, const std::vector<Dim>& args) const;
  uint32_t atom_depth(const DimPoly& poly) const;
  uint64_t parts_of(const DimPoly& poly) const;

  static MaybePoly add(const DimPoly& a, const DimPoly& b, int64_t scale_b);
  static MaybePoly mul(const DimPoly& a, const DimPoly& b);
  static MaybePoly divide_exactly(const DimPoly& p, const DimPoly& d);
  // The laws of dims_laws.cpp.
  MaybePoly settle(DimPoly poly, bool compared = false)
      const;  // joins what floordiv and mod of one pair took apart
  DimPoly residue(const DimPoly& p, int64_t d) const;
  bool is_multiple(const DimPoly& p, int64_t d) const;
  std::optional<uint32_t> atom_of(AtomKind kind, const DimPoly& p, int64_t d) const;
  const Atom* sole_atom(const DimPoly& poly, AtomKind kind, int64_t coeff) const;
  Result<DimPoly> floordiv_of_rest(const DimPoly& rest, const DimPoly& d);
  template <class Function>
  MaybePoly of_two_values(const DimPoly& poly, Function function) const;
  bool divides_atoms(const DimPoly& rest, int64_t d) const;
  MaybePoly floordiv_by_ranges(const DimPoly& rest, const DimPoly& d) const;
  MaybePoly floordiv_by_bounds(const DimPoly& rest, const DimPoly& d) const;
  using LawResult = std::optional<Result<DimPoly>>;  // empty: the law does not apply
  LawResult floordiv_of_common_factor(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_multiple(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_two_values(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_floordiv(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_mod(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_choice(const DimPoly& rest, int64_t d);
  LawResult floordiv_of_shared_atoms(const DimPoly& rest, const DimPoly& d);
  void flatten(AtomKind kind, const DimPoly& p, std::vector<DimPoly>* parts) const;
  void drop_beaten(bool is_min, size_t before, std::vector<DimPoly>* parts) const;
  static DimPoly shared_part(const std::vector<DimPoly>& parts);

  Result<DimPoly> make_poly(uint32_t op, const DimPoly& a, const DimPoly& b);
  Result<DimPoly> make_floordiv(const DimPoly& p, const DimPoly& d);
  Result<DimPoly> make_mod(const DimPoly& p, const DimPoly& d);
  Result<DimPoly> make_min_max(bool is_min, const DimPoly& a, const DimPoly& b);
  Result<DimPoly> atom_poly(AtomKind kind, std::vector<Dim> args);

  DimRange range_of_atom(uint32_t atom) const;
  int64_t multiple_of_atom(uint32_t atom) const;
  DimRange computed_range(const Atom& atom) const;
  int64_t computed_multiple(const Atom& atom) const;
  void look_at_atom(uint32_t atom);
  DimRange range_of(const DimPoly& poly) const;
  int64_t multiple_of_poly(const DimPoly& poly) const;
  int64_t multiple_of_term(const DimTerm& term) const;
  MaybePoly canon(const DimPoly& poly) const;
  DimPoly canon_of_atom(uint32_t atom, bool remake = false);
  static MaybePoly replace_atom(const DimPoly& poly, uint32_t atom, const DimPoly& by);
  struct Search;
  bool prove_nonneg(const DimPoly& poly, int64_t scale, int depth, const Search& search) const;
  bool prove_by_atom(const DimPoly& poly, int64_t scale, const DimTerm& term, size_t factor,
                     int depth, const Search& search) const;
  bool nonneg(const DimPoly& poly) const;
  bool nonneg_by_ranges(const DimPoly& poly) const;  // without asserted facts
  DimRange shifted_range(const DimPoly& poly) const;
  bool mentions_atom(const DimPoly& poly, uint32_t atom) const;
  Status learn_equality(const DimPoly& zero);
  void refresh_canon(uint32_t solved);
  void refresh_mentions(uint32_t symbol_atom, bool forms);
  void set_canon(uint32_t atom, DimPoly canon);
  Status narrow(const DimPoly& nonneg, bool* absorbed = nullptr);
  uint32_t divisible(const DimPoly& a, const DimPoly& b) const;

  std::string text_of(const DimPoly& poly, int precedence) const;
  std::string text_of_atom(uint32_t atom) const;
  void collect_symbols(const DimPoly& poly, std::vector<Symbol>* out) const;
  uint64_t hash_of(const DimPoly& poly, std::span<const uint64_t> symbol_hash) const;
  Status evaluate_poly(const DimPoly& poly, std::span<const int64_t> values, int64_t* out) const;
  Status evaluate_atom(const Atom& atom, std::span<const int64_t> values, int64_t* out) const;
  void build_view(uint32_t index);

  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, uint32_t> entry_by_hash_;
  std::vector<Atom> atoms_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> atom_by_hash_;
  std::vector<SymbolData> symbols_;
  std::vector<uint32_t> symbol_atom_;
  std::unordered_map<std::string, Symbol> symbol_by_name_;
  std::vector<DimFact> facts_;
  std::vector<std::pair<uint32_t, DimPoly>> equalities_;  // atom == polynomial without it
  std::unordered_map<uint32_t, size_t> equality_of_;      // atom to its index above
  std::vector<DimPoly> zeros_;                            // == 0, but solved for no atom
  std::vector<DimPoly> nonneg_;                           // >= 0
  uint32_t refreshed_ = 0;
  uint32_t place_ = 0;
  bool canonical_ = false;  // some atom is known to equal something else
  bool read_only_ = false;
};

}  // namespace tenon::ir
