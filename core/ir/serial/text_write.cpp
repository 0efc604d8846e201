// Graphs as .tir text. The output depends on the graph alone, so that print, parse, print is
// stable.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/ir/dims/dims_internal.h"
#include "core/ir/dtype.h"
#include "core/ir/serial/literal.h"
#include "core/ir/serial/serial.h"

namespace tenon::ir {
namespace {

bool is_bare_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/';
  });
}

bool is_word(std::string_view name) {
  return is_bare_name(name) && name.find_first_of("/.") == std::string_view::npos;
}

class Writer {
 public:
  explicit Writer(const Graph& graph, bool elided = false, bool numbered = false)
      : g_(graph), elided_(elided), numbered_(numbered) {}

  // " {axis = 1}"; empty if all attributes have their defaults.
  Result<std::string> attributes_of(Node n) {
    const NodeData& d = g_.node(n);
    TENON_RETURN_IF_ERROR(
        attributes(n, op_set() == nullptr ? nullptr : op_set()->find(d.op, d.op_version)));
    return std::move(out_);
  }

  Result<TextForm> run() {
    name_values();
    place_facts();
    out_ = "tenon.tir 1\ngraph @";
    out_ += is_bare_name(g_.name()) ? std::string(g_.name()) : string_text(g_.name());
    const RegionData& main = g_.region(0);
    symbols(main.symbols, facts_of_region_[0]);
    TENON_RETURN_IF_ERROR(arguments(main));
    out_ += " -> (";
    for (size_t i = 0; i < main.yields.size(); ++i) {
      if (i != 0) out_ += ", ";
      const std::string_view name =
          i < main.output_names.size() ? sym_text(main.output_names[i]) : "";
      if (!name.empty()) out_ += (is_word(name) ? std::string(name) : string_text(name)) + ": ";
      out_ += type(g_.type(main.yields[i]));
    }
    out_ += ") {\n";
    for (Value v : constants_) TENON_RETURN_IF_ERROR(constant(v));
    TENON_RETURN_IF_ERROR(body(0, 1));
    out_ += "}\n";
    form_.text = std::move(out_);
    return std::move(form_);
  }

 private:
  std::string type(const tenon_type_t& t) {
    return t.kind == TENON_KIND_OBJECT ? "object " + string_text(sym_text(t.object))
                                       : g_.type_text(t);
  }

  // ---- Names of values: the user's if there is one, else numbers in order of appearance. ----

  void name_value(Value v) {
    const std::string_view given = sym_text(g_.value(v).name);
    if (given.empty()) {
      names_[v] = "%" + std::to_string(numbered_ ? v : unnamed_++);
      return;
    }
    const uint32_t n = name_count_[g_.value(v).name]++;
    names_[v] = "%" + (is_bare_name(given) ? std::string(given) : string_text(given)) +
                (n == 0 ? "" : "#" + std::to_string(n));
  }

  void name_region(Region r) {
    for (Symbol s : g_.region(r).symbols) symbol_order_[s] = symbol_order_.size();
    for (Value v : g_.region(r).arguments) name_value(v);
    for (Node n : g_.nodes(r)) {
      for (Symbol s : g_.symbols(n)) symbol_order_[s] = symbol_order_.size();
      for (Region inner : g_.regions(n)) name_region(inner);
      for (Value v : g_.results(n)) name_value(v);
    }
  }

  void name_values() {
    // Constants are printed first, but the main region's arguments get the first names.
    for (Value v : g_.region(0).arguments) name_value(v);
    for (Value v = 0; v < g_.value_limit(); ++v) {
      if (!g_.value_live(v) || g_.value(v).kind != TENON_VALUE_CONSTANT || g_.uses(v).empty())
        continue;
      constants_.push_back(v);
      name_value(v);
    }
    for (Symbol s : g_.region(0).symbols) symbol_order_[s] = symbol_order_.size();
    for (Node n : g_.nodes(0)) {
      for (Symbol s : g_.symbols(n)) symbol_order_[s] = symbol_order_.size();
      for (Region inner : g_.regions(n)) name_region(inner);
      for (Value v : g_.results(n)) name_value(v);
    }
  }

  // ---- Symbols and facts: a fact is printed where the last symbol it mentions is defined. ----

  void place_facts() {
    for (const DimFact& f : g_.facts()) {
      std::vector<Symbol> mentioned;
      g_.dims().symbols_of(f.a, &mentioned);
      g_.dims().symbols_of(f.b, &mentioned);
      const bool printed = std::all_of(mentioned.begin(), mentioned.end(),
                                       [&](Symbol s) { return symbol_order_.contains(s); });
      if (mentioned.empty() || !printed) continue;
      const Symbol last = *std::max_element(
          mentioned.begin(), mentioned.end(),
          [&](Symbol a, Symbol b) { return symbol_order_[a] < symbol_order_[b]; });
      static constexpr const char* kWords[] = {" == ", " < ", " <= ", " multiple_of "};
      const std::string text = g_.dims().text(f.a) + kWords[f.rel] + g_.dims().text(f.b);
      const SymbolData& d = g_.dims().symbol(last);
      (d.node != kNone ? facts_of_node_[d.node] : facts_of_region_[d.region]).push_back(text);
    }
  }

  void symbols(std::span<const Symbol> list, std::vector<std::string> facts) {
    if (list.empty()) return;
    out_ += '<';
    for (size_t i = 0; i < list.size(); ++i) {
      const SymbolData& d = g_.dims().symbol(list[i]);
      if (i != 0) out_ += ", ";
      out_ += symbol_text(sym_text(d.name));
      if (d.lo != 0 || d.hi != INT64_MAX) {
        out_ += fmt::format(" in [{}, {}]", d.lo == INT64_MIN ? "-inf" : std::to_string(d.lo),
                            d.hi == INT64_MAX ? "inf" : std::to_string(d.hi));
      }
      if (d.multiple_of != 1) out_ += fmt::format(" % {}", d.multiple_of);
      if (d.hint >= 0) out_ += fmt::format(" hint {}", d.hint);
    }
    std::sort(facts.begin(), facts.end());
    facts.erase(std::unique(facts.begin(), facts.end()), facts.end());
    for (size_t i = 0; i < facts.size(); ++i) out_ += (i == 0 ? "; " : ", ") + facts[i];
    out_ += '>';
  }

  Status arguments(const RegionData& region) {
    out_ += '(';
    for (size_t i = 0; i < region.arguments.size(); ++i) {
      if (i != 0) out_ += i % 8 == 0 ? ",\n    " : ", ";
      out_ += names_[region.arguments[i]] + ": " + type(g_.type(region.arguments[i]));
      TENON_RETURN_IF_ERROR(notes_of(region.arguments[i]));
    }
    out_ += ')';
    return {};
  }

  // ---- Bodies ----

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  Status body(Region r, int depth) {
    for (Node n : g_.nodes(r)) TENON_RETURN_IF_ERROR(node(n, depth));
    indent(depth);
    out_ += "yield";
    list(g_.region(r).yields);
    out_ += '\n';
    return {};
  }

  void list(std::span<const Value> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      out_ += i == 0 ? " " : ", ";
      out_ += values[i] == kNone ? "_" : names_[values[i]];
    }
  }

  Status node(Node n, int depth) {
    const NodeData& d = g_.node(n);
    indent(depth);
    for (uint32_t i = 0; i < d.result_count; ++i)
      out_ += (i == 0 ? "" : ", ") + names_[d.results[i]];
    if (d.result_count != 0) out_ += " = ";
    out_ += g_.op_name(n);
    const tenon_op_def_t* def = op_set() == nullptr ? nullptr : op_set()->find(d.op, d.op_version);
    const tenon_op_def_t* newest = op_set() == nullptr ? nullptr : op_set()->find(d.op, 0);
    // A definition numbered by content may be replaced before this text is read.
    if (newest == nullptr || newest->version != d.op_version ||
        d.op_version >= TENON_OP_VERSION_BY_CONTENT)
      out_ += fmt::format("@{}", d.op_version);
    out_ += '(';
    for (uint32_t i = 0; i < d.operand_count; ++i) {
      if (i != 0) out_ += ", ";
      out_ += d.operands[i] == kNone ? "_" : names_[d.operands[i]];
    }
    out_ += ')';
    if (d.symbol_count != 0) {
      out_ += ' ';
      symbols(g_.symbols(n), facts_of_node_[n]);
    }
    TENON_RETURN_IF_ERROR(attributes(n, def));
    for (uint32_t i = 0; i < d.result_count; ++i) {
      out_ += (i == 0 ? " : " : ", ") + type(g_.type(d.results[i]));
      TENON_RETURN_IF_ERROR(notes_of(d.results[i]));
    }
    if (d.region_count != 0) {
      out_ += " regions {";
      for (Region r : g_.regions(n)) {
        const RegionData& region = g_.region(r);
        out_ += ' ';
        symbols(region.symbols, facts_of_region_[r]);
        if (!region.arguments.empty() || !region.symbols.empty()) {
          TENON_RETURN_IF_ERROR(arguments(region));
          out_ += ' ';
        }
        out_ += "{\n";
        TENON_RETURN_IF_ERROR(body(r, depth + 1));
        indent(depth);
        out_ += '}';
      }
      out_ += " }";
    }
    location(d.loc);
    out_ += '\n';
    return {};
  }

  void location(Loc loc) {
    bool first = true;
    for (const Origin& o : g_.origins(loc)) {
      if (o.implicit) continue;
      out_ += first ? " loc(" : ", ";
      first = false;
      out_ += string_text(sym_text(o.source));
      if (o.name != 0) out_ += " " + string_text(sym_text(o.name));
      if (o.line != 0) out_ += ":" + std::to_string(o.line);
    }
    if (!first) out_ += ')';
  }

  // ---- Attributes ----

  static bool is_default(const tenon_attr_t& a, const tenon_op_def_t* def) {
    if (def == nullptr) return false;
    for (uint32_t i = 0; i < def->attr_count; ++i) {
      const tenon_attr_def_t& d = def->attrs[i];
      if (from_abi_str(d.name) != sym_text(a.name)) continue;
      if ((d.flags & TENON_ATTR_REQUIRED) || d.kind != a.kind) return false;
      switch (a.kind) {
        case TENON_ATTR_I64:
        case TENON_ATTR_DTYPE:
          return a.u.i == d.default_i;
        case TENON_ATTR_F64:
          return std::memcmp(&a.u.f, &d.default_f, sizeof a.u.f) == 0;
        case TENON_ATTR_STRING:
          return from_abi_str(a.u.s) == from_abi_str(d.default_s);
        default:
          return a.count == 0;
      }
    }
    return false;
  }

  // The notes of a node follow its attributes.
  Status attributes(Node n, const tenon_op_def_t* def) {
    bool first = true;
    for (const tenon_attr_t& a : g_.attrs(n)) {
      if (is_default(a, def)) continue;
      const std::string_view name = sym_text(a.name);
      TENON_RETURN_IF_ERROR(
          named(is_word(name) ? std::string(name) : string_text(name), a, &first));
    }
    TENON_RETURN_IF_ERROR(notes(g_.notes(Noted::kNode, n), &first));
    if (!first) out_ += '}';
    return {};
  }

  Status notes(std::span<const tenon_attr_t> list, bool* first) {
    for (const tenon_attr_t& note : list) {
      const std::string_view name = sym_text(note.name);
      TENON_RETURN_IF_ERROR(
          named(is_bare_name(name) ? std::string(name) : string_text(name), note, first));
    }
    return {};
  }

  // " {acme.scale = 0.5}" after the type of a value.
  Status notes_of(Value v) {
    bool first = true;
    TENON_RETURN_IF_ERROR(notes(g_.notes(Noted::kValue, v), &first));
    if (!first) out_ += '}';
    return {};
  }

  Status named(std::string name, const tenon_attr_t& a, bool* first) {
    out_ += (std::exchange(*first, false) ? " {" : ", ") + std::move(name) + " = ";
    return attribute(a);
  }

  template <typename F>
  void bracketed(uint64_t count, F&& one) {
    out_ += '[';
    for (uint64_t i = 0; i < count; ++i) {
      if (i != 0) out_ += ", ";
      out_ += one(i);
    }
    out_ += ']';
  }

  Status attribute(const tenon_attr_t& a) {
    switch (a.kind) {
      case TENON_ATTR_I64:
        out_ += std::to_string(a.u.i);
        break;
      case TENON_ATTR_F64:
        out_ += float_text(a.u.f);
        break;
      case TENON_ATTR_STRING:
        out_ += string_text(from_abi_str(a.u.s));
        break;
      case TENON_ATTR_DTYPE:
        out_ += a.u.i == 0 ? "none" : dtype_name(static_cast<tenon_dtype_t>(a.u.i));
        break;
      case TENON_ATTR_I64S:
        bracketed(a.count, [&](uint64_t i) { return std::to_string(a.u.is[i]); });
        break;
      case TENON_ATTR_F64S:
        bracketed(a.count, [&](uint64_t i) { return float_text(a.u.fs[i]); });
        break;
      case TENON_ATTR_STRINGS:
        bracketed(a.count, [&](uint64_t i) { return string_text(from_abi_str(a.u.ss[i])); });
        break;
      case TENON_ATTR_DIMS:
        out_ += "dims ";
        bracketed(a.count, [&](uint64_t i) { return g_.dims().text(a.u.dims[i]); });
        break;
      case TENON_ATTR_TYPES:
        out_ += "types ";
        bracketed(a.count, [&](uint64_t i) { return type(a.u.types[i]); });
        break;
      case TENON_ATTR_BLOB: {
        if (a.u.blob == nullptr) {
          out_ += "none";
          break;
        }
        Ref<Blob> blob = Ref<Blob>::share(Blob::from(a.u.blob));
        if (blob->size_bytes() <= TENON_TEXT_INLINE_BYTES_MAX) {
          TENON_ASSIGN_OR_RETURN(const void* data, blob->data());
          out_ +=
              "hex \"" + hex_text({static_cast<const std::byte*>(data), blob->size_bytes()}) + "\"";
        } else {
          const uint64_t size = blob->size_bytes();
          TENON_RETURN_IF_ERROR(outside(std::move(blob)));
          out_ += fmt::format(" size {}", size);
        }
        break;
      }
      default:
        return internal_error("an attribute of unknown kind is in a graph");
    }
    return {};
  }

  // ---- Constants ----

  // "blob DIGEST @ OFFSET"; equal bytes share one place.
  Status outside(Ref<Blob> blob) {
    TENON_ASSIGN_OR_RETURN(const Digest digest, blob->digest());
    const auto key = std::make_pair(digest.hi, digest.lo);
    auto it = places_.find(key);
    if (it == places_.end()) {
      const uint64_t offset = (form_.sidecar_bytes + 63) & ~uint64_t{63};
      form_.sidecar_bytes = offset + blob->size_bytes();
      form_.sidecar.push_back({offset, std::move(blob)});
      it = places_.emplace(key, offset).first;
    }
    out_ += fmt::format("blob {:016x}{:016x} @ {}", digest.hi, digest.lo, it->second);
    return {};
  }

  Status constant(Value v) {
    const ValueData& d = g_.value(v);
    const tenon_type_t& t = g_.type(v);
    out_ += "  " + names_[v] + " = const " + type(t);
    TENON_RETURN_IF_ERROR(notes_of(v));
    out_ += ' ';
    if (elided_ && d.blob->splat_element().empty() && d.blob->size_bytes() > kShownConstantBytes) {
      out_ += "...";
      location(d.loc);
      out_ += '\n';
      return {};
    }
    const std::span<const std::byte> splat = d.blob->splat_element();
    const uint32_t bits = dtype_bits(t.dtype);
    if (!splat.empty() && splat.size() * 8 == std::max(bits, 8u)) {
      const bool pair = bits == 4 && (splat[0] >> 4) != (splat[0] & std::byte{15});
      if (!pair && element_is_plain(t.dtype, splat.data(), 0)) {
        out_ += "splat ";
        write_element(t.dtype, splat.data(), 0, &out_);
      } else {
        out_ += "splat hex \"" + hex_text(splat) + "\"";
      }
    } else if (d.blob->size_bytes() > TENON_TEXT_INLINE_BYTES_MAX) {
      TENON_RETURN_IF_ERROR(outside(d.blob));
    } else {
      TENON_RETURN_IF_ERROR(inline_elements(t, *d.blob));
    }
    location(d.loc);
    out_ += '\n';
    return {};
  }

  Status inline_elements(const tenon_type_t& t, Blob& blob) {
    TENON_ASSIGN_OR_RETURN(const void* raw, blob.data());
    const std::byte* data = static_cast<const std::byte*>(raw);
    uint64_t count = 1;
    for (uint32_t i = 0; i < t.rank; ++i) count *= static_cast<uint64_t>(t.dims[i]);
    bool plain = true;
    for (uint64_t i = 0; i < count && plain; ++i) plain = element_is_plain(t.dtype, data, i);
    // The unused half byte of an odd number of nibbles has no text.
    if (dtype_bits(t.dtype) == 4 && count % 2 != 0 && (data[count / 2] >> 4) != std::byte{0})
      plain = false;
    if (!plain) {
      out_ += "hex \"" + hex_text({data, blob.size_bytes()}) + "\"";
      return {};
    }
    out_ += '[';
    for (uint64_t i = 0; i < count; ++i) {
      if (i != 0) out_ += ", ";
      write_element(t.dtype, data, i, &out_);
    }
    out_ += ']';
    return {};
  }

  // A vector of a few numbers, such as a shape, helps a reader; weights do not.
  static constexpr uint64_t kShownConstantBytes = 32;

  const Graph& g_;
  const bool elided_, numbered_;
  TextForm form_;
  std::string out_;
  std::unordered_map<Value, std::string> names_;
  std::unordered_map<tenon_sym_t, uint32_t> name_count_;
  uint32_t unnamed_ = 0;
  std::vector<Value> constants_;
  std::unordered_map<Symbol, size_t> symbol_order_;
  std::unordered_map<Node, std::vector<std::string>> facts_of_node_;
  std::unordered_map<Region, std::vector<std::string>> facts_of_region_;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> places_;
};

}  // namespace

Result<TextForm> write_text(const Graph& graph) {
  return Writer(graph).run();
}

Result<std::string> write_elided(const Graph& graph) {
  TENON_ASSIGN_OR_RETURN(TextForm form, Writer(graph, true).run());
  return std::move(form.text);
}

Result<std::string> write_numbered(const Graph& graph) {
  TENON_ASSIGN_OR_RETURN(TextForm form, Writer(graph, true, true).run());
  return std::move(form.text);
}

Result<std::string> attributes_text(const Graph& graph, Node node) {
  return Writer(graph, true).attributes_of(node);
}

[[gnu::used, gnu::retain]] void Graph::dump() const {
  const Result<TextForm> form = write_text(*this);
  const std::string text = form.ok() ? form->text : form.status().text() + "\n";
  std::fputs(text.c_str(), stderr);
}

Result<std::string> sidecar_bytes(const TextForm& form) {
  std::string out;
  out.reserve(form.sidecar_bytes);
  for (const SidecarPart& part : form.sidecar) {
    TENON_ASSIGN_OR_RETURN(const void* data, part.blob->data());
    out.resize(part.offset, '\0');
    out.append(static_cast<const char*>(data), part.blob->size_bytes());
  }
  return out;
}

}  // namespace tenon::ir
