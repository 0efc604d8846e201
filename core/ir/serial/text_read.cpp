// .tir text to graphs: recursive descent with bounded nesting; every node is checked as it is
// built. Reading stops at the first error. Names are resolved as they are read, so there is no
// second pass over an unchecked tree.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/ir/dims/expression.h"
#include "core/ir/dtype.h"
#include "core/ir/serial/literal.h"
#include "core/ir/serial/serial.h"
#include "core/ir/serial/text_lexer.h"

namespace tenon::ir {
namespace {

constexpr int kDimTextDepthMax = 100;
constexpr uint64_t kLiteralElementsMax = uint64_t{1} << 24;

// Owns what the attributes of one node point to while it is built.
struct AttrStore {
  std::deque<std::vector<int64_t>> ints;
  std::deque<std::vector<double>> floats;
  std::deque<std::string> strings;
  std::deque<std::vector<tenon_str_t>> string_lists;
  std::deque<std::vector<tenon_type_t>> types;
  std::deque<TypeDraft> drafts;
  std::vector<Ref<Blob>> blobs;
};

// A note and where its name is in the text.
struct PlacedNote {
  size_t at = 0;
  tenon_attr_t note = {};
};
// Notes as read, with what they point to.
struct Notes {
  AttrStore store;
  std::vector<PlacedNote> list;
};

struct Number {
  bool negative = false;
  std::string_view text;
  size_t at = 0;
  bool integral() const { return text.find_first_not_of("0123456789") == std::string_view::npos; }
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, Ref<Blob> sidecar, bool any_note_space)
      : lex_(text, file),
        file_(file),
        sidecar_(std::move(sidecar)),
        any_note_space_(any_note_space) {}

  Result<Ref<Graph>> graph() {
    if (!lex_.skip_word("tenon.tir")) return lex_.expected("`tenon.tir 1`");
    const Token version = lex_.take();
    if (version.kind != Tok::kNumber || version.text != "1") {
      return lex_.error_at(
          version.at, "T0209",
          fmt::format("version {} of the text form is not known here; 1 is", quoted(version.text)));
    }
    if (!lex_.skip_word("graph")) return lex_.expected("`graph`");
    if (lex_.peek().kind != Tok::kGraphName)
      return lex_.expected("the graph's name, as in `@main`");
    g_ = Graph::create(lex_.take().name);
    TENON_RETURN_IF_ERROR(region_header(0));
    TENON_RETURN_IF_ERROR(punct("->"));
    const size_t outputs = lex_.peek().at;
    TENON_RETURN_IF_ERROR(skip_group("(", ")"));
    TENON_RETURN_IF_ERROR(punct("{"));
    TENON_RETURN_IF_ERROR(body(0, 0));
    const size_t after = lex_.peek().at;
    lex_.seek(outputs);
    TENON_RETURN_IF_ERROR(output_list());
    lex_.seek(after);
    if (lex_.peek().kind != Tok::kEnd) return lex_.expected("the end of the text");
    return g_;
  }

  Result<Expression> expression() {
    g_ = Graph::create("expression");
    open_symbols_ = true;
    Expression out;
    const Token op = lex_.take();
    if (op.kind != Tok::kWord) {
      lex_.seek(op.at);
      return lex_.expected("the name of an op");
    }
    out.op = intern(op.text);
    TENON_RETURN_IF_ERROR(op_version(&out.op_version));
    TENON_RETURN_IF_ERROR(punct("("));
    while (!lex_.at_punct(")")) {
      if (lex_.skip_word("_")) {
        out.operands.push_back({});
      } else {
        TENON_ASSIGN_OR_RETURN(ExpressionValue v, typed_literal());
        out.operands.push_back(std::move(v));
      }
      if (!lex_.skip_punct(",")) break;
    }
    TENON_RETURN_IF_ERROR(punct(")"));
    for (ExpressionValue& v : out.operands) {
      if (v.type.dtype == TENON_DTYPE_NONE && v.type.kind == TENON_KIND_TENSOR) {
        v.value = kNone;
      } else if (v.blob) {
        TENON_ASSIGN_OR_RETURN(v.value, g_->add_constant(v.type.view(), v.blob));
      } else {
        TENON_ASSIGN_OR_RETURN(v.value, g_->add_argument(0, v.type.view(), ""));
      }
    }
    auto store = std::make_shared<AttrStore>();
    TENON_RETURN_IF_ERROR(attributes(out.op, out.op_version, store.get(), &out.attrs, nullptr));
    if (lex_.skip_word("regions")) TENON_RETURN_IF_ERROR(regions({0, kNone}, 1, &out.regions));
    if (lex_.skip_punct("->")) {
      out.has_results = true;
      do {
        TENON_ASSIGN_OR_RETURN(ExpressionValue v, typed_literal());
        out.results.push_back(std::move(v));
      } while (lex_.skip_punct(","));
    }
    if (lex_.peek().kind != Tok::kEnd) return lex_.expected("the end of the expression");
    out.graph = g_;
    out.storage = store;
    return out;
  }

 private:
  Status punct(std::string_view p) {
    if (lex_.skip_punct(p)) return {};
    return lex_.expected("`" + std::string(p) + "`");
  }

  // A failure that has no place yet gets this one.
  Status at(size_t place, Status s) {
    if (s.ok()) return s;
    std::string message(s.message());
    for (const std::string& c : s.contexts()) {
      // The place already says which op at which line.
      if (c.rfind("building the op", 0) != 0) message += " (while " + c + ")";
    }
    Status out =
        lex_.error_at(place, s.error_code().empty() ? "T0201" : s.error_code(), message, s.code());
    for (const KeyValue& kv : s.evidence()) out.add(kv.key, kv.value);
    return out;
  }

  Status skip_group(std::string_view open, std::string_view close) {
    TENON_RETURN_IF_ERROR(punct(open));
    for (int depth = 1; depth > 0;) {
      if (lex_.peek().kind == Tok::kEnd) return lex_.expected("`" + std::string(close) + "`");
      if (lex_.at_punct(open)) ++depth;
      if (lex_.at_punct(close)) --depth;
      lex_.take();
    }
    return {};
  }

  // ---- Numbers and dims ----

  Result<Number> number() {
    Number n;
    n.at = lex_.peek().at;
    n.negative = lex_.skip_punct("-");
    const Token& t = lex_.peek();
    const bool word = t.kind == Tok::kWord &&
                      (t.text == "inf" || t.text == "nan" || t.text == "true" || t.text == "false");
    if (t.kind != Tok::kNumber && !word) return lex_.expected("a number");
    n.text = lex_.take().text;
    return n;
  }

  Result<int64_t> integer(const Number& n) {
    uint64_t magnitude = 0;
    const auto [end, ec] = std::from_chars(n.text.data(), n.text.data() + n.text.size(), magnitude);
    const uint64_t top = static_cast<uint64_t>(INT64_MAX) + (n.negative ? 1 : 0);
    if (!n.integral() || ec != std::errc() || magnitude > top) {
      return lex_.error_at(n.at, "T0204",
                           fmt::format("{} is not a 64-bit integer", quoted(n.text.substr(0, 64))),
                           TENON_OUT_OF_RANGE);
    }
    return static_cast<int64_t>(n.negative ? 0 - magnitude : magnitude);
  }
  Result<int64_t> integer() {
    TENON_ASSIGN_OR_RETURN(const Number n, number());
    return integer(n);
  }

  Result<double> real(const Number& n) {
    double d;
    if (Status s = read_element(TENON_F64, n.negative, n.text, reinterpret_cast<std::byte*>(&d), 0);
        !s.ok())
      return at(n.at, s);
    return d;
  }

  Result<Dim> dim_binary(uint32_t op, Dim a, Dim b, size_t place) {
    Result<Dim> made = g_->make_dim(op, a, b);
    if (!made.ok()) return at(place, made.status());
    return made;
  }

  Result<Dim> dim_primary(int depth) {
    const Token t = lex_.peek();
    if (depth > kDimTextDepthMax) {
      return lex_.error_at(
          t.at, "T0102", fmt::format("a dim is nested more than {} levels deep", kDimTextDepthMax),
          TENON_RESOURCE_EXHAUSTED);
    }
    if (t.kind == Tok::kPunct && t.text == "-") {
      lex_.take();
      if (lex_.peek().kind == Tok::kNumber) {
        TENON_ASSIGN_OR_RETURN(const int64_t v, integer(Number{true, lex_.take().text, t.at}));
        return g_->dims().constant(v);
      }
      TENON_ASSIGN_OR_RETURN(const Dim d, dim_primary(depth + 1));
      return dim_binary(TENON_DIM_SUB, 0, d, t.at);
    }
    if (t.kind == Tok::kNumber) {
      lex_.take();
      return integer(Number{false, t.text, t.at});
    }
    if (lex_.skip_punct("(")) {
      TENON_ASSIGN_OR_RETURN(const Dim d, dim_sum(depth + 1));
      TENON_RETURN_IF_ERROR(punct(")"));
      return d;
    }
    if (t.kind == Tok::kWord && (t.text == "min" || t.text == "max")) {
      lex_.take();
      TENON_RETURN_IF_ERROR(punct("("));
      TENON_ASSIGN_OR_RETURN(Dim d, dim_sum(depth + 1));
      while (lex_.skip_punct(",")) {
        TENON_ASSIGN_OR_RETURN(const Dim next, dim_sum(depth + 1));
        TENON_ASSIGN_OR_RETURN(
            d, dim_binary(t.text == "min" ? TENON_DIM_MIN : TENON_DIM_MAX, d, next, t.at));
      }
      TENON_RETURN_IF_ERROR(punct(")"));
      return d;
    }
    if (t.kind != Tok::kWord && t.kind != Tok::kString) return lex_.expected("a dim");
    lex_.take();
    const std::string_view name = t.kind == Tok::kWord ? t.text : std::string_view(t.name);
    if (const auto s = g_->dims().symbol_find(name))
      return std::as_const(*g_).dims().symbol(*s).dim;
    if (!open_symbols_)
      return lex_.error_at(t.at, "T0202",
                           fmt::format("the symbol {} is not defined", quoted(name)));
    Result<Symbol> made = g_->define_symbol(0, name, 0, INT64_MAX, 1, -1);
    if (!made.ok()) return at(t.at, made.status());
    return std::as_const(*g_).dims().symbol(*made).dim;
  }

  Result<Dim> dim_product(int depth) {
    TENON_ASSIGN_OR_RETURN(Dim d, dim_primary(depth));
    for (;;) {
      const size_t place = lex_.peek().at;
      uint32_t op;
      if (lex_.skip_punct("*"))
        op = TENON_DIM_MUL;
      else if (lex_.skip_word("floordiv"))
        op = TENON_DIM_FLOORDIV;
      else if (lex_.skip_word("mod"))
        op = TENON_DIM_MOD;
      else
        return d;
      TENON_ASSIGN_OR_RETURN(const Dim next, dim_primary(depth));
      TENON_ASSIGN_OR_RETURN(d, dim_binary(op, d, next, place));
    }
  }

  Result<Dim> dim_sum(int depth) {
    TENON_ASSIGN_OR_RETURN(Dim d, dim_product(depth));
    for (;;) {
      const size_t place = lex_.peek().at;
      uint32_t op;
      if (lex_.skip_punct("+"))
        op = TENON_DIM_ADD;
      else if (lex_.skip_punct("-"))
        op = TENON_DIM_SUB;
      else
        return d;
      TENON_ASSIGN_OR_RETURN(const Dim next, dim_product(depth));
      TENON_ASSIGN_OR_RETURN(d, dim_binary(op, d, next, place));
    }
  }

  Status dim_list(std::vector<Dim>* out, uint64_t most) {
    TENON_RETURN_IF_ERROR(punct("["));
    while (!lex_.at_punct("]")) {
      if (out->size() >= most) {
        return lex_.error_at(lex_.peek().at, "T0102",
                             fmt::format("a list has more than {} dims", most),
                             TENON_RESOURCE_EXHAUSTED);
      }
      TENON_ASSIGN_OR_RETURN(const Dim d, dim_sum(0));
      out->push_back(d);
      if (!lex_.skip_punct(",")) break;
    }
    return punct("]");
  }

  // ---- Types ----

  Result<TypeDraft> type() {
    const Token t = lex_.peek();
    TypeDraft out;
    if (lex_.skip_word("token")) {
      out.kind = TENON_KIND_TOKEN;
      return out;
    }
    if (lex_.skip_word("object")) {
      if (lex_.peek().kind != Tok::kString)
        return lex_.expected("the name of an object type, in quotes");
      out.kind = TENON_KIND_OBJECT;
      out.object = intern(lex_.take().name);
      return out;
    }
    out.dtype = t.kind == Tok::kWord ? dtype_from_name(t.text) : tenon_dtype_t{TENON_DTYPE_NONE};
    if (out.dtype == TENON_DTYPE_NONE) return lex_.expected("a type, as in `f32[2, n]`");
    lex_.take();
    TENON_RETURN_IF_ERROR(dim_list(&out.dims, TENON_RANK_MAX));
    return out;
  }

  Status skip_types() {
    do {
      TENON_RETURN_IF_ERROR(skip_type());
      if (lex_.at_punct("{")) TENON_RETURN_IF_ERROR(skip_group("{", "}"));
    } while (lex_.skip_punct(","));
    return {};
  }

  Status skip_type() {
    if (lex_.skip_word("object")) {
      if (lex_.peek().kind != Tok::kString)
        return lex_.expected("the name of an object type, in quotes");
      lex_.take();
      return {};
    }
    if (lex_.peek().kind != Tok::kWord) return lex_.expected("a type, as in `f32[2, n]`");
    const bool token = lex_.at_word("token");
    lex_.take();
    return token ? Status() : skip_group("[", "]");
  }

  // ---- Symbols: `<n in [0, 4096] % 8 hint 128, m; n <= m>` ----

  struct Declared {
    std::string name;
    size_t at;
    bool bounded = false;
    Dim lo = 0, hi = 0;
    bool lo_open = false, hi_open = true;
    int64_t multiple = 1, hint = -1;
  };

  Result<Dim> bound(bool* open, bool low) {
    const size_t place = lex_.peek().at;
    if (lex_.skip_word("inf")) {
      *open = true;
      if (low) return lex_.error_at(place, "T0201", "a lower bound cannot be inf");
      return Dim{0};
    }
    if (low && lex_.at_punct("-")) {
      lex_.take();
      if (lex_.skip_word("inf")) {
        *open = true;
        return Dim{0};
      }
      lex_.seek(place);
    }
    *open = false;
    return dim_sum(0);
  }

  Result<Declared> declared() {
    const Token t = lex_.take();
    if (t.kind != Tok::kWord && t.kind != Tok::kString) {
      lex_.seek(t.at);
      return lex_.expected("the name of a symbol");
    }
    Declared d;
    d.name = t.kind == Tok::kWord ? std::string(t.text) : t.name;
    d.at = t.at;
    if (lex_.skip_word("in")) {
      d.bounded = true;
      TENON_RETURN_IF_ERROR(punct("["));
      TENON_ASSIGN_OR_RETURN(d.lo, bound(&d.lo_open, true));
      TENON_RETURN_IF_ERROR(punct(","));
      TENON_ASSIGN_OR_RETURN(d.hi, bound(&d.hi_open, false));
      TENON_RETURN_IF_ERROR(punct("]"));
    }
    if (lex_.skip_punct("%")) {
      TENON_ASSIGN_OR_RETURN(d.multiple, integer());
    }
    if (lex_.skip_word("hint")) {
      TENON_ASSIGN_OR_RETURN(d.hint, integer());
    }
    return d;
  }

  // The declarations of a region, each defined as it is read.
  Status region_symbols(Region r) {
    if (!lex_.skip_punct("<")) return {};
    do {
      TENON_ASSIGN_OR_RETURN(const Declared d, declared());
      const bool lo_fixed = d.lo_open || !g_->dims().mentions_symbols(d.lo);
      const bool hi_fixed = d.hi_open || !g_->dims().mentions_symbols(d.hi);
      const int64_t lo = d.lo_open ? INT64_MIN : lo_fixed ? g_->dims().range(d.lo).lo : 0;
      const int64_t hi = d.hi_open || !hi_fixed ? INT64_MAX : g_->dims().range(d.hi).hi;
      Result<Symbol> s = g_->add_symbol(d.name, lo, hi, d.multiple, d.hint);
      if (!s.ok()) return at(d.at, s.status());
      TENON_RETURN_IF_ERROR(g_->adopt_symbol(r, *s));
      const Dim self = std::as_const(*g_).dims().symbol(*s).dim;
      if (!lo_fixed) TENON_RETURN_IF_ERROR(fact(d.at, TENON_REL_LE, d.lo, self));
      if (!hi_fixed) TENON_RETURN_IF_ERROR(fact(d.at, TENON_REL_LE, self, d.hi));
    } while (lex_.skip_punct(","));
    return facts();
  }

  Status fact(size_t place, uint32_t rel, Dim a, Dim b) {
    return at(place, g_->dims().record_fact(rel, a, b));
  }

  Status facts() {
    if (lex_.skip_punct(";")) {
      do {
        const size_t place = lex_.peek().at;
        TENON_ASSIGN_OR_RETURN(const Dim a, dim_sum(0));
        uint32_t rel;
        if (lex_.skip_punct("=="))
          rel = TENON_REL_EQ;
        else if (lex_.skip_punct("<="))
          rel = TENON_REL_LE;
        else if (lex_.skip_punct("<"))
          rel = TENON_REL_LT;
        else if (lex_.skip_word("multiple_of"))
          rel = TENON_REL_DIVISIBLE;
        else
          return lex_.expected("`==`, `<`, `<=` or `multiple_of`");
        TENON_ASSIGN_OR_RETURN(const Dim b, dim_sum(0));
        TENON_RETURN_IF_ERROR(fact(place, rel, a, b));
      } while (lex_.skip_punct(","));
    }
    return punct(">");
  }

  // The bounds that a node states for the symbols its inference made.
  Status node_symbols(Node n) {
    TENON_RETURN_IF_ERROR(punct("<"));
    uint32_t i = 0;
    do {
      // The name is defined before its bounds are read: they may mention only earlier symbols of
      // the node.
      const Token name = lex_.peek();
      const std::vector<Symbol> made(g_->symbols(n).begin(), g_->symbols(n).end());
      if (i == made.size()) {
        return lex_.error_at(name.at, "T0318",
                             fmt::format("the op defines {} symbols", made.size()));
      }
      TENON_ASSIGN_OR_RETURN(const Declared d, declared());
      if (Status s = g_->dims().symbol_rename(made[i], d.name); !s.ok()) return at(d.at, s);
      const Dim self = std::as_const(*g_).dims().symbol(made[i]).dim;
      if (d.bounded && !d.lo_open)
        TENON_RETURN_IF_ERROR(at(d.at, g_->assert_fact(TENON_REL_LE, d.lo, self)));
      if (d.bounded && !d.hi_open)
        TENON_RETURN_IF_ERROR(at(d.at, g_->assert_fact(TENON_REL_LE, self, d.hi)));
      if (d.multiple < 1)
        return lex_.error_at(d.at, "T0307", "a symbol is a multiple of something positive");
      TENON_RETURN_IF_ERROR(at(d.at, g_->assert_fact(TENON_REL_DIVISIBLE, self, d.multiple)));
      g_->dims().symbol(made[i]).hint = std::max<int64_t>(d.hint, -1);
      ++i;
    } while (lex_.skip_punct(","));
    if (i != g_->symbols(n).size())
      return lex_.expected(
          fmt::format("{} symbols, as many as the op defines", g_->symbols(n).size()));
    return facts();
  }

  // ---- Values ----

  // The key of a value's name: a number and the same digits in quotes are different names.
  static std::string key_of(const Token& t) {
    return (t.quoted ? "q" : "b") + t.name + "#" + std::to_string(t.duplicate);
  }
  static bool is_number(const Token& t) {
    return !t.quoted && t.name.find_first_not_of("0123456789") == std::string::npos;
  }
  // A name in quotes and the same name without are one name, except for numbers.
  std::string canonical(const Token& t) {
    Token c = t;
    if (!is_number(t)) c.quoted = true;
    return key_of(c);
  }

  Status define(const Token& t, Value v) {
    if (!values_.emplace(canonical(t), v).second) {
      return lex_.error_at(t.at, "T0203",
                           fmt::format("the value {} is defined already", quoted(t.text)));
    }
    if (!is_number(t)) return at(t.at, g_->set_name(v, t.name));
    return {};
  }

  Result<Value> use() {
    if (lex_.skip_word("_")) return kNone;
    const Token t = lex_.peek();
    if (t.kind != Tok::kValue) return lex_.expected("a value, as in `%x`");
    const auto it = values_.find(canonical(t));
    if (it == values_.end())
      return lex_.error_at(
          t.at, "T0202",
          fmt::format("the value {} is not defined before this place", quoted(t.text)));
    lex_.take();
    return it->second;
  }

  Status use_list(std::vector<Value>* out, std::string_view end) {
    while (!lex_.at_punct(end)) {
      TENON_RETURN_IF_ERROR(
          at(lex_.peek().at, check_limit(Limit::kOperands, out->size() + 1, "an op")));
      TENON_ASSIGN_OR_RETURN(const Value v, use());
      out->push_back(v);
      if (!lex_.skip_punct(",")) break;
    }
    return {};
  }

  // ---- Regions ----

  // `<symbols>(%a: type, ...)`, both optional for an inner region.
  Status region_header(Region r) {
    TENON_RETURN_IF_ERROR(region_symbols(r));
    if (r != 0 && !lex_.at_punct("(")) return {};
    TENON_RETURN_IF_ERROR(punct("("));
    while (!lex_.at_punct(")")) {
      const Token name = lex_.peek();
      if (name.kind != Tok::kValue) return lex_.expected("an argument, as in `%x: f32[2]`");
      lex_.take();
      TENON_RETURN_IF_ERROR(punct(":"));
      const size_t place = lex_.peek().at;
      TENON_ASSIGN_OR_RETURN(const TypeDraft t, type());
      Result<Value> v = g_->add_argument(r, t.view(), "");
      if (!v.ok()) return at(place, v.status());
      TENON_RETURN_IF_ERROR(define(name, *v));
      Notes notes;
      TENON_RETURN_IF_ERROR(value_notes(&notes));
      TENON_RETURN_IF_ERROR(set_notes(Noted::kValue, *v, notes));
      if (!lex_.skip_punct(",")) break;
    }
    return punct(")");
  }

  Status body(Region r, int depth) {
    for (;;) {
      if (lex_.skip_word("yield")) break;
      if (lex_.at_punct("}") || lex_.peek().kind == Tok::kEnd) {
        return lex_.error_at(lex_.peek().at, "T0317", "a region ends with `yield`");
      }
      TENON_RETURN_IF_ERROR(statement(r, depth));
    }
    std::vector<Value> yields;
    const size_t place = lex_.peek().at;
    TENON_RETURN_IF_ERROR(use_list(&yields, "}"));
    if (std::find(yields.begin(), yields.end(), kNone) != yields.end()) {
      return lex_.error_at(place, "T0317", "an absent value cannot be yielded");
    }
    TENON_RETURN_IF_ERROR(at(place, g_->set_yields(r, yields, {})));
    return punct("}");
  }

  Status regions(Place place, int depth, std::vector<Region>* out) {
    if (static_cast<uint64_t>(depth) > limit(Limit::kDepth)) {
      return at(lex_.peek().at,
                check_limit(Limit::kDepth, static_cast<uint64_t>(depth), "regions of a graph"));
    }
    TENON_RETURN_IF_ERROR(punct("{"));
    while (!lex_.skip_punct("}")) {
      Result<Region> r = g_->begin_region(place);
      if (!r.ok()) return at(lex_.peek().at, r.status());
      out->push_back(*r);
      TENON_RETURN_IF_ERROR(region_header(*r));
      TENON_RETURN_IF_ERROR(punct("{"));
      TENON_RETURN_IF_ERROR(body(*r, depth));
    }
    return {};
  }

  Status output_list() {
    TENON_RETURN_IF_ERROR(punct("("));
    const std::vector<Value> yields = g_->region(0).yields;
    std::vector<std::string> names;
    const size_t start = lex_.peek().at;
    while (!lex_.at_punct(")")) {
      const Token t = lex_.peek();
      names.emplace_back();
      if (t.kind == Tok::kWord || t.kind == Tok::kString) {
        lex_.take();
        if (lex_.skip_punct(":"))
          names.back() = t.kind == Tok::kWord ? std::string(t.text) : t.name;
        else
          lex_.seek(t.at);
      }
      const size_t place = lex_.peek().at;
      TENON_ASSIGN_OR_RETURN(const TypeDraft want, type());
      if (names.size() > yields.size()) {
        return lex_.error_at(
            place, "T0313",
            fmt::format("more outputs are declared than the {} that are yielded", yields.size()));
      }
      const tenon_type_t& have = g_->type(yields[names.size() - 1]);
      if (!g_->types_agree(want.view(), have)) {
        return lex_.error_at(
            place, "T0313",
            fmt::format("output {} is declared as {} but the value has type {}", names.size() - 1,
                        g_->type_text(want.view()), g_->type_text(have)));
      }
      if (!lex_.skip_punct(",")) break;
    }
    TENON_RETURN_IF_ERROR(punct(")"));
    if (names.size() != yields.size()) {
      return lex_.error_at(
          start, "T0313",
          fmt::format("{} outputs are declared; {} are yielded", names.size(), yields.size()));
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    return at(start, g_->set_yields(0, yields, views));
  }

  // ---- Statements ----

  Status statement(Region r, int depth) {
    std::vector<Token> results;
    const size_t begin = lex_.peek().at;
    if (lex_.peek().kind == Tok::kValue) {
      do {
        if (lex_.peek().kind != Tok::kValue) return lex_.expected("a value, as in `%x`");
        TENON_RETURN_IF_ERROR(
            at(begin, check_limit(Limit::kOperands, results.size() + 1, "an op's results")));
        results.push_back(lex_.take());
      } while (lex_.skip_punct(","));
      TENON_RETURN_IF_ERROR(punct("="));
    }
    if (lex_.at_word("const")) return constant(results, begin);
    return node(r, depth, results, begin);
  }

  Status op_version(uint32_t* out) {
    // `name@2` lexes as a word and a graph name.
    if (lex_.peek().kind != Tok::kGraphName) return {};
    const Token t = lex_.take();
    const auto [end, ec] = std::from_chars(t.name.data(), t.name.data() + t.name.size(), *out);
    if (ec != std::errc() || end != t.name.data() + t.name.size() || *out == 0) {
      return lex_.error_at(t.at, "T0201", "a version is a number above 0, as in `name@2`");
    }
    return {};
  }

  Status node(Region r, int depth, const std::vector<Token>& results, size_t begin) {
    const Token op = lex_.peek();
    if (op.kind != Tok::kWord) return lex_.expected("an op, `const` or `yield`");
    lex_.take();
    NodeDraft draft;
    draft.op = intern(op.text);
    TENON_RETURN_IF_ERROR(op_version(&draft.op_version));
    const tenon_op_def_t* def =
        op_set() == nullptr ? nullptr : op_set()->find(draft.op, draft.op_version);
    if (def == nullptr) {
      return at(op.at, op_set() == nullptr ? error(TENON_NOT_FOUND, "T0308",
                                                   "no operators are registered in this process")
                                           : op_set()->unknown(draft.op, draft.op_version));
    }
    draft.op_version = def->version;  // fixes the definition, even if another is registered
    TENON_RETURN_IF_ERROR(punct("("));
    std::vector<Value> operands;
    TENON_RETURN_IF_ERROR(use_list(&operands, ")"));
    TENON_RETURN_IF_ERROR(punct(")"));
    const size_t symbols = lex_.peek().at;
    const bool has_symbols = lex_.at_punct("<");
    if (has_symbols) TENON_RETURN_IF_ERROR(skip_group("<", ">"));
    AttrStore store;
    std::vector<tenon_attr_t> attrs;
    Notes notes;
    TENON_RETURN_IF_ERROR(attributes(draft.op, draft.op_version, &store, &attrs, &notes));
    size_t types = 0;
    if (lex_.skip_punct(":")) {
      types = lex_.peek().at;
      TENON_RETURN_IF_ERROR(skip_types());
    }
    std::vector<Region> inner;
    if (lex_.skip_word("regions")) TENON_RETURN_IF_ERROR(regions({r, kNone}, depth + 1, &inner));
    TENON_ASSIGN_OR_RETURN(draft.loc, location(begin));
    const size_t after = lex_.peek().at;
    draft.operands = operands;
    draft.attrs = attrs;
    draft.regions = inner;
    std::vector<TypeDraft> declared;
    std::vector<tenon_type_t> views;
    std::deque<Notes> result_notes;
    auto read_types = [&]() -> Status {
      if (types == 0) return {};
      lex_.seek(types);
      do {
        TENON_ASSIGN_OR_RETURN(TypeDraft t, type());
        declared.push_back(std::move(t));
        TENON_RETURN_IF_ERROR(value_notes(&result_notes.emplace_back()));
      } while (lex_.skip_punct(","));
      for (const TypeDraft& t : declared) views.push_back(t.view());
      return {};
    };
    if (!has_symbols) {
      TENON_RETURN_IF_ERROR(read_types());
      draft.result_types = views;
    }
    Result<Node> n = g_->build({r, kNone}, draft);
    if (!n.ok())
      return at(n.status().error_code() == "T0313" && types != 0 ? types : op.at, n.status());
    if (has_symbols) {
      lex_.seek(symbols);
      TENON_RETURN_IF_ERROR(node_symbols(*n));
      TENON_RETURN_IF_ERROR(read_types());
      TENON_RETURN_IF_ERROR(at(types, g_->declare_results(*n, views)));
    }
    lex_.seek(after);
    if (results.size() != g_->results(*n).size()) {
      return lex_.error_at(begin, "T0313",
                           fmt::format("{} names are given to the {} results of {}", results.size(),
                                       g_->results(*n).size(), quoted(op.text)));
    }
    for (size_t i = 0; i < results.size(); ++i)
      TENON_RETURN_IF_ERROR(define(results[i], g_->results(*n)[i]));
    TENON_RETURN_IF_ERROR(set_notes(Noted::kNode, *n, notes));
    for (size_t i = 0; i < result_notes.size(); ++i)
      TENON_RETURN_IF_ERROR(set_notes(Noted::kValue, g_->results(*n)[i], result_notes[i]));
    return {};
  }

  // `loc("file" "name":12, ...)`. Without one, the location is the line of the text, which is not
  // written out again.
  Result<Loc> location(size_t begin) {
    std::vector<Origin> origins;
    if (!lex_.skip_word("loc")) {
      if (file_.empty()) return Loc{0};  // no file of the user's
      const Origin here{intern(file_), 0, lex_.line_of(begin), true};
      return g_->make_loc(here);
    }
    TENON_RETURN_IF_ERROR(punct("("));
    do {
      Origin o;
      if (lex_.peek().kind != Tok::kString)
        return lex_.expected("the source of a location, in quotes");
      o.source = intern(lex_.take().name);
      if (lex_.peek().kind == Tok::kString) o.name = intern(lex_.take().name);
      if (lex_.skip_punct(":")) {
        TENON_ASSIGN_OR_RETURN(const int64_t line, integer());
        if (line < 0 || line > UINT32_MAX)
          return lex_.error_at(begin, "T0204", "a line number does not fit in 32 bits");
        o.line = static_cast<uint32_t>(line);
      }
      origins.push_back(o);
      if (origins.size() > kLocOriginsMax)
        return lex_.expected(fmt::format("at most {} origins", kLocOriginsMax));
    } while (lex_.skip_punct(","));
    TENON_RETURN_IF_ERROR(punct(")"));
    return g_->make_loc(origins);
  }

  // ---- Constants ----

  Status constant(const std::vector<Token>& results, size_t begin) {
    lex_.take();
    if (results.size() != 1) return lex_.error_at(begin, "T0201", "a constant has one name");
    const size_t place = lex_.peek().at;
    TENON_ASSIGN_OR_RETURN(const TypeDraft t, type());
    Notes notes;
    TENON_RETURN_IF_ERROR(value_notes(&notes));
    TENON_ASSIGN_OR_RETURN(Ref<Blob> blob, literal(t));
    Loc loc = 0;
    if (lex_.at_word("loc")) {
      TENON_ASSIGN_OR_RETURN(loc, location(begin));
    }
    Result<Value> v = g_->add_constant(t.view(), std::move(blob), {}, loc);
    if (!v.ok()) return at(place, v.status());
    TENON_RETURN_IF_ERROR(set_notes(Noted::kValue, *v, notes));
    return define(results[0], *v);
  }

  // Elements and bytes of a type whose dims are constants.
  Status measure(const TypeDraft& t, size_t place, uint64_t* elements, uint64_t* bytes) {
    for (Dim d : t.dims) {
      if (d < 0) return lex_.error_at(place, "T0319", "a constant has constant dims");
    }
    if (t.kind != TENON_KIND_TENSOR) return lex_.error_at(place, "T0319", "a constant is a tensor");
    Result<uint64_t> n = element_count(t.dims);
    if (!n.ok()) return at(place, n.status());
    TENON_RETURN_IF_ERROR(at(place, check_limit(Limit::kElements, *n, "a constant")));
    Result<uint64_t> b = packed_bytes(*n, dtype_bits(t.dtype));
    if (!b.ok()) return at(place, b.status());
    *elements = *n;
    *bytes = *b;
    return {};
  }

  Status element(tenon_dtype_t dtype, std::byte* data, uint64_t i) {
    if (dtype_is_complex(dtype)) {
      const tenon_dtype_t part = dtype == TENON_C64 ? TENON_F32 : TENON_F64;
      TENON_RETURN_IF_ERROR(punct("("));
      TENON_ASSIGN_OR_RETURN(const Number re, number());
      TENON_RETURN_IF_ERROR(punct(","));
      TENON_ASSIGN_OR_RETURN(const Number im, number());
      TENON_RETURN_IF_ERROR(punct(")"));
      TENON_RETURN_IF_ERROR(at(re.at, read_element(part, re.negative, re.text, data, 2 * i)));
      return at(im.at, read_element(part, im.negative, im.text, data, 2 * i + 1));
    }
    TENON_ASSIGN_OR_RETURN(const Number n, number());
    return at(n.at, read_element(dtype, n.negative, n.text, data, i));
  }

  // One bracketed list of all elements; nested lists of any shape contribute their elements in
  // order.
  Status elements(const TypeDraft& t, std::vector<std::byte>* data, uint64_t count,
                  uint64_t* filled, int depth) {
    if (depth > static_cast<int>(TENON_RANK_MAX))
      return lex_.expected("an element: lists are nested at most 32 deep");
    TENON_RETURN_IF_ERROR(punct("["));
    while (!lex_.at_punct("]")) {
      if (lex_.at_punct("[")) {
        TENON_RETURN_IF_ERROR(elements(t, data, count, filled, depth + 1));
      } else {
        const size_t place = lex_.peek().at;
        if (*filled == count)
          return lex_.error_at(place, "T0205",
                               fmt::format("the type has {} elements; the list has more", count));
        TENON_RETURN_IF_ERROR(element(t.dtype, data->data(), *filled));
        ++*filled;
      }
      if (!lex_.skip_punct(",")) break;
    }
    return punct("]");
  }

  Result<std::vector<std::byte>> hex() {
    const Token t = lex_.peek();
    if (t.kind != Tok::kString) return lex_.expected("hexadecimal digits in quotes");
    lex_.take();
    std::vector<std::byte> out;
    if (!read_hex(t.name, &out))
      return lex_.error_at(t.at, "T0201", "hexadecimal bytes are pairs of the digits 0-9 and a-f");
    return out;
  }

  // `[1, 2]`, `splat 0`, `hex "..."` or `blob DIGEST @ OFFSET`; for a rank-0 type also a bare
  // number.
  Result<Ref<Blob>> literal(const TypeDraft& t) {
    const size_t place = lex_.peek().at;
    uint64_t count, bytes;
    TENON_RETURN_IF_ERROR(measure(t, place, &count, &bytes));
    if (lex_.skip_word("splat")) return splat(t, bytes);
    if (lex_.skip_word("blob")) return outside(bytes);
    std::vector<std::byte> data;
    if (lex_.skip_word("hex")) {
      TENON_ASSIGN_OR_RETURN(data, hex());
      if (data.size() != bytes) {
        return lex_.error_at(
            place, "T0205",
            fmt::format("the type needs {} bytes; {} are given", bytes, data.size()));
      }
      return blob_adopt(std::move(data));
    }
    if (count > kLiteralElementsMax) {
      return lex_.error_at(
          place, "T0102",
          fmt::format("a list literal has at most {} elements; use `splat` or `blob`",
                      kLiteralElementsMax),
          TENON_RESOURCE_EXHAUSTED);
    }
    // A hostile type must not allocate more than the text can fill, so the list's elements are
    // counted first.
    TENON_RETURN_IF_ERROR(count_elements(count, place));
    data.resize(bytes);
    uint64_t filled = 0;
    if (lex_.at_punct("[")) {
      TENON_RETURN_IF_ERROR(elements(t, &data, count, &filled, 0));
    } else {
      TENON_RETURN_IF_ERROR(element(t.dtype, data.data(), 0));
      filled = 1;
    }
    if (filled != count)
      return lex_.error_at(place, "T0205",
                           fmt::format("the type has {} elements; {} are given", count, filled));
    return blob_adopt(std::move(data));
  }

  Status count_elements(uint64_t count, size_t place) {
    if (!lex_.at_punct("[")) {
      if (count == 1) return {};
      return lex_.expected("a list of elements, `splat`, `hex` or `blob`");
    }
    // There is at least one comma fewer than elements.
    uint64_t seen = 1;
    int depth = 0;
    do {
      if (lex_.peek().kind == Tok::kEnd) return lex_.expected("`]`");
      if (lex_.at_punct("[")) ++depth;
      if (lex_.at_punct("]")) --depth;
      if (lex_.at_punct(",")) ++seen;
      lex_.take();
    } while (depth > 0);
    lex_.seek(place);
    // Complex elements contain a comma of their own, so this is an upper bound.
    if (seen < count)
      return lex_.error_at(place, "T0205",
                           fmt::format("the type has {} elements; the list has fewer", count));
    return {};
  }

  Result<Ref<Blob>> splat(const TypeDraft& t, uint64_t bytes) {
    const size_t place = lex_.peek().at;
    std::byte element_bytes[16] = {};
    size_t width = std::max<uint32_t>(dtype_bits(t.dtype), 8) / 8;
    if (lex_.skip_word("hex")) {
      TENON_ASSIGN_OR_RETURN(const std::vector<std::byte> data, hex());
      if (data.size() != width)
        return lex_.error_at(place, "T0205", fmt::format("an element has {} bytes", width));
      std::copy(data.begin(), data.end(), element_bytes);
    } else {
      TENON_RETURN_IF_ERROR(element(t.dtype, element_bytes, 0));
      if (dtype_bits(t.dtype) == 4) element_bytes[0] |= element_bytes[0] << 4;
    }
    Result<Ref<Blob>> blob = blob_splat({element_bytes, width}, bytes);
    if (!blob.ok()) return at(place, blob.status());
    return blob;
  }

  Result<Ref<Blob>> outside(uint64_t bytes) {
    // The digest may begin with a digit, so its tokens are joined by their place in the text.
    const size_t place = lex_.peek().at;
    size_t end = place;
    std::string digest;
    while ((lex_.peek().kind == Tok::kWord || lex_.peek().kind == Tok::kNumber) &&
           (digest.empty() || lex_.peek().at == end) && digest.size() < 64) {
      digest += lex_.peek().text;
      end = lex_.take().end;
    }
    // `@ 64` lexes as a lone at-sign and a number.
    const Token sign = lex_.take();
    if (sign.text != "@") {
      lex_.seek(sign.at);
      return lex_.expected("`@` and an offset");
    }
    TENON_ASSIGN_OR_RETURN(const int64_t offset, integer());
    std::vector<std::byte> raw;
    if (!read_hex(digest, &raw) || raw.size() != 16 || offset < 0) {
      return lex_.error_at(place, "T0201",
                           "a digest has 32 hexadecimal digits, an offset is not negative");
    }
    if (!sidecar_) {
      return lex_.error_at(
          place, "T0207",
          fmt::format("the bytes of this constant are in {}.bin, which is not there",
                      printable(file_)),
          TENON_NOT_FOUND);
    }
    Result<Ref<Blob>> blob = blob_range(sidecar_, static_cast<uint64_t>(offset), bytes);
    if (!blob.ok())
      return lex_.error_at(place, "T0207", std::string(blob.status().message()),
                           TENON_OUT_OF_RANGE);
    Result<Digest> have = (*blob)->digest();
    if (!have.ok()) return at(place, have.status());
    if (fmt::format("{:016x}{:016x}", have->hi, have->lo) != digest) {
      return lex_.error_at(
          place, "T0208",
          fmt::format("the bytes at {} of {}.bin have another digest", offset, printable(file_)),
          TENON_DATA_LOSS);
    }
    return blob;
  }

  Result<ExpressionValue> typed_literal() {
    ExpressionValue out;
    TENON_ASSIGN_OR_RETURN(out.type, type());
    const Token& t = lex_.peek();
    const bool literal_follows =
        t.kind == Tok::kNumber || lex_.at_punct("[") || lex_.at_punct("-") ||
        lex_.at_word("splat") || lex_.at_word("hex") || lex_.at_word("true") ||
        lex_.at_word("false") || lex_.at_word("inf") || lex_.at_word("nan") ||
        (lex_.at_punct("(") && dtype_is_complex(out.type.dtype));
    if (literal_follows) {
      TENON_ASSIGN_OR_RETURN(out.blob, literal(out.type));
    }
    return out;
  }

  // ---- Attributes ----

  // `{name = value, ...}`. The declaration decides the type of an empty list or an integer.
  // `notes` gets the names with a dot that are no attributes; null if there can be none.
  Status attributes(tenon_sym_t op, uint32_t version, AttrStore* store,
                    std::vector<tenon_attr_t>* out, Notes* notes) {
    if (!lex_.skip_punct("{")) return {};
    const tenon_op_def_t* def = op_set() == nullptr ? nullptr : op_set()->find(op, version);
    while (!lex_.at_punct("}")) {
      if (notes != nullptr && at_note(def)) {
        TENON_RETURN_IF_ERROR(note(notes));
        if (!lex_.skip_punct(",")) break;
        continue;
      }
      TENON_RETURN_IF_ERROR(
          at(lex_.peek().at, check_limit(Limit::kOperands, out->size() + 1, "an op's attributes")));
      const Token name = lex_.take();
      if (name.kind != Tok::kWord && name.kind != Tok::kString) {
        lex_.seek(name.at);
        return lex_.expected("the name of an attribute");
      }
      const std::string_view text =
          name.kind == Tok::kWord ? name.text : std::string_view(name.name);
      TENON_RETURN_IF_ERROR(punct("="));
      uint32_t wanted = 0;
      for (uint32_t i = 0; def != nullptr && i < def->attr_count; ++i) {
        if (from_abi_str(def->attrs[i].name) == text) wanted = def->attrs[i].kind;
      }
      tenon_attr_t a = {};
      a.name = intern(text);
      a.count = 1;
      TENON_RETURN_IF_ERROR(attribute(wanted, store, &a));
      if (a.name == 0) return lex_.error_at(name.at, "T0311", "an attribute has a name");
      out->push_back(a);
      if (!lex_.skip_punct(",")) break;
    }
    return punct("}");
  }

  // ---- Notes ----

  static std::string_view name_of(const Token& t) {
    return t.kind == Tok::kWord ? t.text : std::string_view(t.name);
  }

  // Whether a name with a dot follows that the op does not declare.
  bool at_note(const tenon_op_def_t* def) const {
    const Token& t = lex_.peek();
    if (t.kind != Tok::kWord && t.kind != Tok::kString) return false;
    if (name_of(t).find('.') == std::string_view::npos) return false;
    for (uint32_t i = 0; def != nullptr && i < def->attr_count; ++i) {
      if (from_abi_str(def->attrs[i].name) == name_of(t)) return false;
    }
    return true;
  }

  Status note(Notes* out) {
    const Token name = lex_.take();
    PlacedNote& read = out->list.emplace_back(PlacedNote{name.at, {}});
    for (size_t i = 0; i + 1 < out->list.size(); ++i) {
      if (sym_text(out->list[i].note.name) == name_of(name))
        return lex_.error_at(name.at, "T0327",
                             fmt::format("the note {} is given twice", quoted(name_of(name))));
    }
    TENON_RETURN_IF_ERROR(
        at(name.at, check_limit(Limit::kOperands, out->list.size(), "the notes of a node")));
    read.note.name = intern(name_of(name));
    read.note.count = 1;
    TENON_RETURN_IF_ERROR(punct("="));
    return attribute(0, &out->store, &read.note);
  }

  // `{space.name = value, ...}` after the type of a value.
  Status value_notes(Notes* out) {
    if (!lex_.skip_punct("{")) return {};
    while (!lex_.at_punct("}")) {
      const Token& t = lex_.peek();
      if (t.kind != Tok::kWord && t.kind != Tok::kString)
        return lex_.expected("the name of a note, as in `user.scale`");
      TENON_RETURN_IF_ERROR(note(out));
      if (!lex_.skip_punct(",")) break;
    }
    return punct("}");
  }

  Status set_notes(Noted kind, uint32_t index, const Notes& notes) {
    for (const PlacedNote& placed : notes.list)
      TENON_RETURN_IF_ERROR(at(placed.at, g_->set_note(kind, index, placed.note, any_note_space_)));
    return {};
  }

  Status attribute(uint32_t wanted, AttrStore* store, tenon_attr_t* a) {
    const Token t = lex_.peek();
    if (t.kind == Tok::kString) {
      a->kind = TENON_ATTR_STRING;
      store->strings.push_back(lex_.take().name);
      a->u.s = to_abi_str(store->strings.back());
      return {};
    }
    if (lex_.at_punct("[")) return list_attribute(wanted, store, a);
    if (lex_.skip_word("dims")) return dims_attribute(store, a);
    if (lex_.skip_word("types")) return types_attribute(store, a);
    if (lex_.skip_word("hex")) {
      TENON_ASSIGN_OR_RETURN(std::vector<std::byte> data, hex());
      return blob_attribute(blob_adopt(std::move(data)), store, a);
    }
    if (lex_.skip_word("blob")) return outside_attribute(store, a);
    if (lex_.skip_word("none")) {
      a->kind = wanted == TENON_ATTR_BLOB ? TENON_ATTR_BLOB : TENON_ATTR_DTYPE;
      a->count = a->kind == TENON_ATTR_BLOB ? 0 : 1;
      return {};
    }
    if (t.kind == Tok::kWord && dtype_from_name(t.text) != TENON_DTYPE_NONE) {
      a->kind = TENON_ATTR_DTYPE;
      a->u.i = dtype_from_name(lex_.take().text);
      return {};
    }
    TENON_ASSIGN_OR_RETURN(const Number n, number());
    if (n.text == "true" || n.text == "false") {
      a->kind = TENON_ATTR_I64;
      a->u.i = n.text == "true";
      return {};
    }
    if (n.integral() && wanted != TENON_ATTR_F64) {
      a->kind = TENON_ATTR_I64;
      TENON_ASSIGN_OR_RETURN(a->u.i, integer(n));
      return {};
    }
    a->kind = TENON_ATTR_F64;
    TENON_ASSIGN_OR_RETURN(a->u.f, real(n));
    return {};
  }

  Status list_attribute(uint32_t wanted, AttrStore* store, tenon_attr_t* a) {
    const size_t place = lex_.peek().at;
    if (wanted == TENON_ATTR_DIMS) return dims_attribute(store, a);
    lex_.take();
    if (lex_.peek().kind == Tok::kString) {
      std::vector<tenon_str_t>& list = store->string_lists.emplace_back();
      do {
        if (lex_.peek().kind != Tok::kString) return lex_.expected("a string");
        store->strings.push_back(lex_.take().name);
        list.push_back(to_abi_str(store->strings.back()));
      } while (lex_.skip_punct(","));
      a->kind = TENON_ATTR_STRINGS;
      a->count = list.size();
      a->u.ss = list.data();
      return punct("]");
    }
    std::vector<Number> numbers;
    bool integral = true;
    while (!lex_.at_punct("]")) {
      TENON_ASSIGN_OR_RETURN(const Number n, number());
      integral = integral && n.integral();
      numbers.push_back(n);
      if (!lex_.skip_punct(",")) break;
    }
    TENON_RETURN_IF_ERROR(punct("]"));
    a->count = numbers.size();
    if (numbers.empty()) {
      const bool list =
          wanted == TENON_ATTR_F64S || wanted == TENON_ATTR_STRINGS || wanted == TENON_ATTR_TYPES;
      a->kind = list ? wanted : TENON_ATTR_I64S;
      a->u.is = nullptr;
      return {};
    }
    (void)place;
    if (integral && wanted != TENON_ATTR_F64S) {
      std::vector<int64_t>& list = store->ints.emplace_back();
      for (const Number& n : numbers) {
        TENON_ASSIGN_OR_RETURN(const int64_t v, integer(n));
        list.push_back(v);
      }
      a->kind = TENON_ATTR_I64S;
      a->u.is = list.data();
      return {};
    }
    std::vector<double>& list = store->floats.emplace_back();
    for (const Number& n : numbers) {
      TENON_ASSIGN_OR_RETURN(const double v, real(n));
      list.push_back(v);
    }
    a->kind = TENON_ATTR_F64S;
    a->u.fs = list.data();
    return {};
  }

  Status dims_attribute(AttrStore* store, tenon_attr_t* a) {
    std::vector<Dim>& list = store->ints.emplace_back();
    TENON_RETURN_IF_ERROR(dim_list(&list, limit(Limit::kOperands)));
    a->kind = TENON_ATTR_DIMS;
    a->count = list.size();
    a->u.dims = list.data();
    return {};
  }

  Status types_attribute(AttrStore* store, tenon_attr_t* a) {
    TENON_RETURN_IF_ERROR(punct("["));
    std::vector<tenon_type_t>& list = store->types.emplace_back();
    while (!lex_.at_punct("]")) {
      TENON_ASSIGN_OR_RETURN(TypeDraft t, type());
      store->drafts.push_back(std::move(t));
      list.push_back(store->drafts.back().view());
      if (!lex_.skip_punct(",")) break;
    }
    a->kind = TENON_ATTR_TYPES;
    a->count = list.size();
    a->u.types = list.data();
    return punct("]");
  }

  Status outside_attribute(AttrStore* store, tenon_attr_t* a) {
    // The size follows the place: look ahead for it.
    const size_t place = lex_.peek().at;
    while (!lex_.at_word("size")) {
      if (lex_.peek().kind == Tok::kEnd || lex_.at_punct("}")) return lex_.expected("`size`");
      lex_.take();
    }
    lex_.take();
    TENON_ASSIGN_OR_RETURN(const int64_t size, integer());
    const size_t after = lex_.peek().at;
    if (size < 0) return lex_.error_at(place, "T0204", "a size is not negative");
    lex_.seek(place);
    TENON_ASSIGN_OR_RETURN(Ref<Blob> blob, outside(static_cast<uint64_t>(size)));
    if (!lex_.at_word("size")) return lex_.expected("`size`");
    lex_.seek(after);
    return blob_attribute(std::move(blob), store, a);
  }

  Status blob_attribute(Ref<Blob> blob, AttrStore* store, tenon_attr_t* a) {
    a->kind = TENON_ATTR_BLOB;
    a->u.blob = blob->abi();
    store->blobs.push_back(std::move(blob));
    return {};
  }

  Lexer lex_;
  std::string_view file_;
  Ref<Blob> sidecar_;
  Ref<Graph> g_;
  bool any_note_space_ = false;
  bool open_symbols_ = false;  // unknown symbols are defined at their first use
  std::unordered_map<std::string, Value> values_;
};

Status check_text(std::string_view text, std::string_view file) {
  const std::string where = "the text " + quoted(file);
  TENON_RETURN_IF_ERROR(check_limit(Limit::kTextBytes, text.size(), where));
  const uint64_t line_limit = limit(Limit::kLineBytes);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end - at > line_limit) return check_limit(Limit::kLineBytes, end - at, where);
    at = end + 1;
  }
  if (!is_valid_utf8(text))
    return error(TENON_INVALID_ARGUMENT, "T0206", "{} is not UTF-8", quoted(file));
  return {};
}

}  // namespace

Result<Ref<Graph>> read_text(std::string_view text, std::string_view name, Ref<Blob> sidecar,
                             bool any_note_space) {
  TENON_RETURN_IF_ERROR(check_text(text, name));
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  TENON_ASSIGN_OR_RETURN(Ref<Graph> graph,
                         Parser(text, name, std::move(sidecar), any_note_space).graph());
  TENON_RETURN_IF_ERROR(graph->verify());
  return graph;
}

Result<Expression> parse_expression(std::string_view text, std::string_view name) {
  TENON_RETURN_IF_ERROR(check_text(text, name));
  return Parser(text, name, {}, false).expression();
}

Result<Node> build_expression(const Expression& e) {
  std::vector<Value> operands;
  for (const ExpressionValue& v : e.operands) operands.push_back(v.value);
  NodeDraft draft;
  draft.op = e.op;
  draft.op_version = e.op_version;
  draft.operands = operands;
  draft.attrs = e.attrs;
  draft.regions = e.regions;
  return e.graph->build({0, kNone}, draft);
}

}  // namespace tenon::ir
