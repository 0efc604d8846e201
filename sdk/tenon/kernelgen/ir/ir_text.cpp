#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {
namespace {

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buf[40];
  for (int digits : {6, 9, 17}) {
    std::snprintf(buf, sizeof buf, "%.*g", digits, v);
    if (std::strtod(buf, nullptr) == v || digits == 17) break;
  }
  return buf;
}

const char* infix(uint16_t op) {
  switch (op) {
    case TENON_S_ADD:
      return " + ";
    case TENON_S_SUB:
      return " - ";
    case TENON_S_MUL:
      return "*";
    case TENON_S_DIV:
      return " / ";
    case kFloorDiv:
      return " // ";
    case kMod:
      return " % ";
    case TENON_S_AND:
      return " & ";
    case TENON_S_OR:
      return " | ";
    default:
      return nullptr;
  }
}

constexpr const char* kRelations[] = {" == ", " != ", " < ", " <= ", " > ", " >= "};

// Expressions are graphs. Written as a tree, a shared expression appears once per path to it.
// People prefer this form while it is short, but a chain of forty squares would be endless. Beyond
// this many nodes each shared expression gets a name and is written once.
constexpr uint64_t kTreeMost = 500;

class Writer {
 public:
  // `roots`: every expression that will be written.
  Writer(const Pool& p, std::span<const ExprId> roots) : p_(p) {
    uint64_t size = 0;
    for (ExprId e : roots) size = std::min(size + measure(e), kTreeMost + 1);
    if (size <= kTreeMost) return;
    for (ExprId e : order_) {
      if (uses_[e] < 2 || p_.at(e).args_count == 0) continue;
      std::string text = "t" + std::to_string(names_.size()) + " = ";
      write_plain(e, &text);
      names_.emplace(e, static_cast<uint32_t>(names_.size()));
      definitions_.push_back(std::move(text));
    }
  }
  // One for each name, which only mentions names before it.
  const std::vector<std::string>& definitions() const { return definitions_; }

  std::string text(ExprId e) const {
    std::string out;
    write(e, &out);
    return out;
  }
  std::string list(const std::vector<ExprId>& es) const {
    std::string out;
    write_list(es, &out);
    return out;
  }
  std::string store(const View& v) const {
    std::string s = "b" + std::to_string(v.buffer) + "[" + list(v.index) + "]";
    if (v.guard != kNone) s += "{if " + text(v.guard) + "}";
    return s;
  }

 private:
  // Counts the nodes of the tree, up to just above the limit. Lists what is under e, arguments
  // first, and counts its uses.
  uint64_t measure(ExprId e) {
    if (e == kNone) return 1;
    if (++uses_[e] > 1) return sizes_[e];
    uint64_t size = 1;
    for (ExprId a : p_.args(e)) size = std::min(size + measure(a), kTreeMost + 1);
    order_.push_back(e);
    return sizes_[e] = size;
  }

  void write_list(std::span<const ExprId> es, std::string* out) const {
    for (size_t i = 0; i < es.size(); ++i) {
      if (i) *out += ", ";
      write(es[i], out);
    }
  }

  void write_operand(ExprId e, std::string* out) const {
    const Expr& x = p_.at(e);
    const bool paren = x.kind == X::kOp && (infix(x.op) || x.op == TENON_S_CMP) &&
                       x.op != TENON_S_MUL && !names_.contains(e);
    if (paren) *out += '(';
    write(e, out);
    if (paren) *out += ')';
  }

  void write_op(ExprId e, std::string* out) const {
    const Expr& x = p_.at(e);
    const char* text = x.op == TENON_S_CMP ? kRelations[x.ref % 6] : infix(x.op);
    if (text && x.args_count == 2) {
      const Expr& first = p_.at(p_.arg(e, 0));
      if (x.op == TENON_S_ADD && first.kind == X::kOp && first.op == TENON_S_ADD) {
        write(p_.arg(e, 0), out);
      } else {
        write_operand(p_.arg(e, 0), out);
      }
      *out += text;
      write_operand(p_.arg(e, 1), out);
      return;
    }
    *out += name_of_op(x.op);
    if (x.op == TENON_S_CONVERT || x.op == kRound || x.op == TENON_S_BITCAST_RESULT ||
        x.op == TENON_S_CONVERT_WRAP) {
      *out += '<';
      *out += name_of(x.type);
      *out += '>';
    }
    *out += '(';
    write_list(p_.args(e), out);
    *out += ')';
  }

  void write(ExprId e, std::string* out) const {
    const auto name = names_.find(e);
    if (e == kNone) {
      *out += "none";
    } else if (name != names_.end()) {
      *out += "t" + std::to_string(name->second);
    } else {
      write_plain(e, out);
    }
  }

  void write_plain(ExprId e, std::string* out) const {
    const Expr& x = p_.at(e);
    switch (x.kind) {
      case X::kConst:
        if (x.type == TENON_PRED) {
          *out += x.bits ? "true" : "false";
        } else {
          *out += is_float(x.type) ? number_text(p_.number_value(e)) : std::to_string(x.bits);
        }
        break;
      case X::kExtent:
        *out += "n" + std::to_string(x.ref);
        break;
      case X::kAxis:
        *out += "i" + std::to_string(x.ref);
        break;
      case X::kState:
        *out += "s" + std::to_string(x.ref);
        break;
      case X::kOp:
        write_op(e, out);
        break;
      case X::kLoad:
        *out += "b" + std::to_string(x.ref) + "[";
        write_list(p_.args(e).subspan(2), out);
        *out += "]";
        if (p_.arg(e, 0) != kNone) {
          *out += "{if ";
          write(p_.arg(e, 0), out);
          *out += " else ";
          write(p_.arg(e, 1), out);
          *out += "}";
        }
        break;
    }
  }

  const Pool& p_;
  std::unordered_map<ExprId, uint32_t> uses_, names_;
  std::unordered_map<ExprId, uint64_t> sizes_;
  std::vector<ExprId> order_;
  std::vector<std::string> definitions_;
};

std::string axis_list(const std::vector<uint32_t>& axes) {
  std::string s = "[";
  for (size_t i = 0; i < axes.size(); ++i) s += (i ? ", i" : "i") + std::to_string(axes[i]);
  return s + "]";
}

std::string expr_list(const Pool& p, const std::vector<ExprId>& list) {
  return Writer(p, list).list(list);
}

// Everything that a stage's text mentions.
std::vector<ExprId> written(const Stage& s) {
  std::vector<ExprId> all;
  for (const auto* list : {&s.init, &s.step, &s.merge, &s.final, &s.value})
    all.insert(all.end(), list->begin(), list->end());
  all.insert(all.end(), {s.a, s.b});
  for (const View& v : s.store) {
    all.insert(all.end(), v.index.begin(), v.index.end());
    all.push_back(v.guard);
  }
  return all;
}

std::string stage_text(const Kernel& k, size_t i) {
  const Stage& s = k.stages[i];
  const Writer w(k.pool, written(s));
  static constexpr const char* kNames[] = {"Map",     "Reduce", "Contract", "Scan",
                                           "Scatter", "Sort",   "Attention"};
  std::string out = "  stage " + std::to_string(i) + " " + kNames[static_cast<int>(s.kind)] +
                    " over " + axis_list(s.space);
  if (s.kind != StageKind::kMap) out += " reduce " + axis_list(s.reduce);
  if (!s.fill.empty()) out += " fill " + axis_list(s.fill);
  if (s.from_end) out += " from the end";
  out += "\n";
  if (!s.note.empty()) out += "    // " + s.note + "\n";
  for (const std::string& definition : w.definitions()) out += "    " + definition + "\n";
  if (s.kind == StageKind::kReduce) {
    out += "    init " + w.list(s.init) + "; step " + w.list(s.step) + "; merge " +
           w.list(s.merge) + "\n";
  }
  if (s.kind == StageKind::kContract)
    out += "    s0 = sum(" + w.text(s.a) + " * " + w.text(s.b) + ")\n";
  if (s.kind == StageKind::kScan)
    out += "    init " + w.list(s.init) + "; step " + w.list(s.step) + "\n";
  if (s.kind == StageKind::kAttention) {
    out += "    s0 = sum(" + w.text(s.a) + " * " + w.text(s.b) + "); score " + w.text(s.step[0]) +
           "; weighs " + w.text(s.value[0]) + "\n";
  }
  if (s.kind == StageKind::kSort) out += "    keys " + w.list(s.step) + "\n";
  if (s.kind == StageKind::kScatter) {
    return out + "    " + w.store(s.store[0]) + " = " + w.text(s.init[0]) + "\n    " +
           w.store(s.store[1]) + " = " + w.text(s.step[0]) + "\n";
  }
  const std::vector<ExprId>& results =
      s.kind == StageKind::kMap || s.kind == StageKind::kSort ? s.value : s.final;
  for (size_t j = 0; j < s.store.size(); ++j) {
    out += "    " + w.store(s.store[j]) + " = " + w.text(results[j]) + "\n";
  }
  return out;
}

}  // namespace

std::string Pool::text(ExprId e) const {
  const Writer w(*this, {&e, 1});
  std::string out;
  for (const std::string& definition : w.definitions()) out += definition + "; ";
  return out + w.text(e);
}

std::string to_text(const Kernel& k) {
  static constexpr const char* kRoles[] = {"in", "out", "temp", "constant", "persistent"};
  std::string out = "kernel lead " + axis_list(k.lead) + " {\n";
  std::vector<bool> used(k.pool.axes().size());
  for (const Stage& s : k.stages) {
    for (uint32_t a : s.space) used[a] = true;
    for (uint32_t a : s.reduce) used[a] = true;
    for (uint32_t a : s.fill) used[a] = true;
  }
  for (uint32_t a : k.lead) used[a] = true;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i])
      out += "  axis i" + std::to_string(i) + " < " + k.pool.text(k.pool.axes()[i].extent) + "\n";
  }
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    const Buffer& b = k.buffers[i];
    out += "  buffer b" + std::to_string(i) + " " + std::string(name_of(b.type)) + "[" +
           expr_list(k.pool, b.dims) + "] strides [" + expr_list(k.pool, b.strides) + "] " +
           kRoles[static_cast<int>(b.role)];
    if (b.offset != kNone && !k.pool.is_const(b.offset, 0))
      out += " offset " + k.pool.text(b.offset);
    if (b.panel != 0) out += " panels of " + std::to_string(b.panel);
    if (b.alias_of >= 0) out += " in b" + std::to_string(b.alias_of);
    out += "\n";
  }
  for (size_t i = 0; i < k.stages.size(); ++i) out += stage_text(k, i);
  return out + "}\n";
}

// An attribute that a compiler does not know would be a warning in the plugin's build.
#if defined(__has_cpp_attribute) && __has_cpp_attribute(gnu::retain)
[[gnu::used, gnu::retain]]
#else
[[gnu::used]]
#endif
void Kernel::dump() const {
  std::fputs(to_text(*this).c_str(), stderr);
}

// ---- Verifier ----

namespace {

struct Checker {
  const Kernel& k;
  size_t stage = 0;
  std::string* why;

  bool bad(const std::string& text) {
    *why = "stage " + std::to_string(stage) + ": " + text;
    return false;
  }

  bool expr(ExprId e, const std::vector<uint32_t>& axes, uint32_t states, std::vector<bool>* seen) {
    if (e == kNone) return true;
    if ((*seen)[e]) return true;
    (*seen)[e] = true;
    const Expr& x = k.pool.at(e);
    if (x.kind == X::kAxis && std::find(axes.begin(), axes.end(), x.ref) == axes.end()) {
      return bad("axis i" + std::to_string(x.ref) + " is not one of its axes");
    }
    if (x.kind == X::kState && x.ref >= states)
      return bad("state s" + std::to_string(x.ref) + " does not exist here");
    if (x.kind == X::kLoad) {
      if (x.ref >= k.buffers.size()) return bad("load of unknown buffer b" + std::to_string(x.ref));
      const Buffer& b = k.buffers[x.ref];
      if (b.type != x.type)
        return bad("load of b" + std::to_string(x.ref) + " has another type than the buffer");
      if (x.args_count != b.dims.size() + 2) {
        return bad("load of b" + std::to_string(x.ref) + " has " +
                   std::to_string(x.args_count - 2) + " indices, the buffer has " +
                   std::to_string(b.dims.size()) + " dims");
      }
    }
    for (ExprId a : k.pool.args(e)) {
      if (!expr(a, axes, states, seen)) return false;
    }
    return true;
  }

  bool all(const std::vector<ExprId>& list, const std::vector<uint32_t>& axes, uint32_t states) {
    std::vector<bool> seen(k.pool.size());
    for (ExprId e : list) {
      if (e == kNone) return bad("an expression is missing");
      if (!expr(e, axes, states, &seen)) return false;
    }
    return true;
  }

  bool results(const std::vector<ExprId>& values, const Stage& s) {
    return results(values, s, s.space);
  }
  bool results(const std::vector<ExprId>& values, const Stage& s,
               const std::vector<uint32_t>& axes) {
    if (values.size() != s.store.size() || values.empty())
      return bad("results and stores differ in number");
    for (size_t i = 0; i < values.size(); ++i) {
      const View& v = s.store[i];
      if (v.buffer >= k.buffers.size())
        return bad("stores to unknown buffer b" + std::to_string(v.buffer));
      const Buffer& b = k.buffers[v.buffer];
      if (b.role == Role::kIn || b.role == Role::kConstant) return bad("stores to an input");
      if (b.dims.size() != v.index.size())
        return bad("store to b" + std::to_string(v.buffer) + " has another rank");
      if (k.pool.type(values[i]) != b.type) {
        return bad("stores " + std::string(name_of(k.pool.type(values[i]))) + " to b" +
                   std::to_string(v.buffer) + " of type " + std::string(name_of(b.type)));
      }
      if (size_of(b.type) == 0)
        return bad("kernelgen does not store " + std::string(name_of(b.type)));
      if (!all(v.index, axes, 0)) return false;
    }
    return true;
  }

  bool check(const Stage& s) {
    std::vector<uint32_t> axes = s.space;
    axes.insert(axes.end(), s.reduce.begin(), s.reduce.end());
    if (s.kind == StageKind::kMap) return all(s.value, s.space, 0) && results(s.value, s);
    if (s.kind == StageKind::kContract) {
      if (s.a == kNone || s.b == kNone || k.pool.type(s.a) != k.pool.type(s.b))
        return bad("operand types differ");
      return all({s.a, s.b}, axes, 0) && all(s.final, s.space, 1) && results(s.final, s);
    }
    const uint32_t n = static_cast<uint32_t>(s.init.size());
    std::vector<uint32_t> filled = s.space;
    filled.insert(filled.end(), s.fill.begin(), s.fill.end());
    if (s.kind == StageKind::kScan) {
      if (s.reduce.size() != 1 || s.step.size() != n)
        return bad("a scan runs along one axis and steps every state");
      return all(s.init, {}, 0) && all(s.step, axes, n) && all(s.final, axes, 2 * n) &&
             results(s.final, s, axes);
    }
    if (s.kind == StageKind::kAttention) {
      if (s.reduce.size() != 1 || s.fill.size() != 1 || s.space.size() < 2 || s.step.size() != 1 ||
          s.value.size() != 1) {
        return bad("attention has one axis of keys, one of features, queries and columns");
      }
      for (ExprId x : {s.a, s.b, s.value[0]}) {
        if (k.pool.at(x).kind != X::kLoad || k.pool.type(x) != TENON_F32 ||
            k.pool.arg(x, 0) != kNone) {
          return bad("queries, keys and values are plain loads of f32");
        }
      }
      std::vector<uint32_t> every = axes;
      every.insert(every.end(), s.fill.begin(), s.fill.end());
      return all({s.a, s.b}, every, 0) && all(s.value, axes, 0) && all(s.step, axes, 1) &&
             all(s.final, s.space, 2) && results(s.final, s);
    }
    if (s.kind == StageKind::kSort) {
      if (s.reduce.size() != 1 || s.fill.size() != 1 || s.step.empty())
        return bad("a sort has one axis, one result axis and keys");
      for (ExprId key : s.step) {
        if (k.pool.type(key) != TENON_U32 && k.pool.type(key) != TENON_U64)
          return bad("a key is neither u32 nor u64");
      }
      return all(s.step, axes, 0) && all(s.value, axes, 0) && results(s.value, s, filled);
    }
    if (s.kind == StageKind::kScatter) {
      if (n != 1 || s.step.size() != 1 || s.store.size() != 2 ||
          s.store[0].buffer != s.store[1].buffer) {
        return bad("a scatter fills one buffer and updates it");
      }
      if (k.pool.type(s.step[0]) != k.buffers[s.store[1].buffer].type)
        return bad("an update has another type than the buffer");
      return all(s.init, filled, 0) && all(s.store[0].index, filled, 0) && all(s.step, axes, 1) &&
             all(s.store[1].index, axes, 0) &&
             all({s.store[1].guard == kNone ? s.step[0] : s.store[1].guard}, axes, 1);
    }
    if (s.step.size() != n || s.merge.size() != n)
      return bad("init, step and merge differ in number");
    return all(s.init, {}, 0) && all(s.step, axes, n) && all(s.merge, {}, 2 * n) &&
           all(s.final, s.space, n) && results(s.final, s);
  }
};

}  // namespace

bool verify(const Kernel& k, std::string* why) {
  Checker c{k, 0, why};
  for (size_t i = 0; i < k.stages.size(); ++i) {
    c.stage = i;
    if (!c.check(k.stages[i])) return false;
  }
  return true;
}

}  // namespace tenon::kernelgen
