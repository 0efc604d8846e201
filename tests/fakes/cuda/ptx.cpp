#include "ptx.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace fake_cuda {
namespace {

using Words = std::vector<std::string>;

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {
    {"pred", Type::kPred}, {"b8", Type::kU8},   {"u8", Type::kU8},   {"s8", Type::kS8},
    {"b16", Type::kU16},   {"u16", Type::kU16}, {"s16", Type::kS16}, {"b32", Type::kU32},
    {"u32", Type::kU32},   {"s32", Type::kS32}, {"b64", Type::kU64}, {"u64", Type::kU64},
    {"s64", Type::kS64},   {"f16", Type::kF16}, {"f32", Type::kF32}, {"f64", Type::kF64}};

bool find_type(std::string_view name, Type* out) {
  for (const TypeName& t : kTypes) {
    if (t.name == name) return *out = t.type, true;
  }
  return false;
}

std::string trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return std::string(s);
}

// Splits at the separator outside of brackets.
Words split(std::string_view s, char separator) {
  Words out;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '{' || s[i] == '[')) ++depth;
    if (i < s.size() && (s[i] == '}' || s[i] == ']')) --depth;
    if (i != s.size() && (s[i] != separator || depth != 0)) continue;
    std::string part = trim(s.substr(begin, i - begin));
    if (!part.empty()) out.push_back(std::move(part));
    begin = i + 1;
  }
  return out;
}

// One statement of the text: a directive, a label, an instruction, or a brace.
struct Statement {
  std::string text;
  uint32_t line;
};

std::string without_comments(std::string_view text) {
  std::string out(text);
  for (size_t at = 0; (at = out.find("//", at)) != std::string::npos;) {
    const size_t end = std::min(out.find('\n', at), out.size());
    std::fill(out.begin() + static_cast<long>(at), out.begin() + static_cast<long>(end), ' ');
  }
  return out;
}

// Braces stand alone, except those of an operand or an initial value.
std::vector<Statement> statements(std::string_view text) {
  std::vector<Statement> out;
  std::string now;
  uint32_t line = 1, begin = 1;
  int operand = 0, parameters = 0;
  const auto end = [&] {
    std::string s = trim(now);
    if (!s.empty()) out.push_back({std::move(s), begin});
    now.clear();
    begin = line;
  };
  for (char c : text) {
    const bool blank = trim(now).empty();
    if (blank) begin = line;
    if (c == '\n') {
      ++line;
      // Directives of a module end with their line.
      const std::string s = trim(now);
      if (s.starts_with(".version") || s.starts_with(".target") || s.starts_with(".address_size") ||
          s.starts_with(".maxntid"))
        end();
      else if (!blank)
        now += ' ';
      continue;
    }
    if (c == '(') ++parameters;
    if (c == ')') --parameters;
    if (c == '{' && (blank || (parameters == 0 && now.find(".entry") != std::string::npos))) {
      end();
      out.push_back({"{", line});
      continue;
    }
    if (c == '{') ++operand;
    if (c == '}' && operand == 0) {
      end();
      out.push_back({"}", line});
      continue;
    }
    if (c == '}') --operand;
    if (c == ';') {
      end();
      continue;
    }
    now += c;
    if (c == ':' && parameters == 0 && operand == 0 && now.find(' ') == std::string::npos) end();
    if (c == ')' && parameters == 0 && now.find(".entry") != std::string::npos) end();
  }
  end();
  return out;
}

int64_t number(const std::string& text) {
  char* end = nullptr;
  const int64_t value = text.starts_with("-")
                            ? std::strtoll(text.c_str(), &end, 0)
                            : static_cast<int64_t>(std::strtoull(text.c_str(), &end, 0));
  if (end == text.c_str() || (*end != '\0' && *end != 'U')) throw Error("the number " + text);
  return value;
}

uint32_t aligned(uint32_t at, uint32_t to) {
  return (at + to - 1) / to * to;
}

// A variable: ".align 8 .b8 name[160] = {...}", without its space.
struct Declared {
  std::string name;
  uint32_t align = 1, bytes = 0;
  std::vector<unsigned char> initial;
};

Declared declared(std::string text) {
  Declared out;
  std::string values;
  if (const size_t at = text.find('='); at != std::string::npos) {
    values = trim(text.substr(at + 1));
    text = trim(text.substr(0, at));
  }
  Type type = Type::kNone;
  for (const std::string& word : split(text, ' ')) {
    // A parameter of NVRTC's says where it points to, ".u64 .ptr .global .align 16 name".
    if (word == ".align" || word == ".ptr" || word == ".global") continue;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      out.align = static_cast<uint32_t>(number(word));
    } else if (word[0] != '.') {
      out.name = word;
    } else if (!find_type(word.substr(1), &type)) {
      throw Error("the declaration " + text);
    }
  }
  int64_t count = 1;
  if (const size_t at = out.name.find('['); at != std::string::npos) {
    count = number(out.name.substr(at + 1, out.name.size() - at - 2));
    out.name.resize(at);
  }
  if (type == Type::kNone || out.name.empty() || count < 0 || count > (1 << 28))
    throw Error("the declaration " + text);
  out.bytes = static_cast<uint32_t>(count) * static_cast<uint32_t>(bytes_of(type));
  if (values.size() > 2 && values.front() == '{') values = values.substr(1, values.size() - 2);
  out.initial.resize(out.bytes);
  size_t at = 0;
  for (const std::string& value : split(values, ',')) {
    const int64_t bits = number(value);
    const auto width = static_cast<size_t>(bytes_of(type));
    if (at + width > out.bytes) throw Error("too many values of " + out.name);
    std::memcpy(out.initial.data() + at, &bits, width);
    at += width;
  }
  return out;
}

// ---- Kernels ----

struct Name {
  std::string_view name;
  Op op;
  int operands;  // with the result; -1: others
};
constexpr Name kNames[] = {{"abs", Op::kAbs, 2},         {"add", Op::kAdd, 3},
                           {"and", Op::kAnd, 3},         {"bfe", Op::kBfe, 4},
                           {"bfi", Op::kBfi, 5},         {"brev", Op::kBrev, 2},
                           {"clz", Op::kClz, 2},         {"copysign", Op::kCopysign, 3},
                           {"cvt", Op::kCvt, 2},         {"cvta", Op::kMov, 2},
                           {"div", Op::kDiv, 3},         {"fma", Op::kFma, 4},
                           {"mad", Op::kMad, 4},         {"max", Op::kMax, 3},
                           {"min", Op::kMin, 3},         {"mov", Op::kMov, 2},
                           {"mul", Op::kMul, 3},         {"neg", Op::kNeg, 2},
                           {"not", Op::kNot, 2},         {"or", Op::kOr, 3},
                           {"popc", Op::kPopc, 2},       {"prmt", Op::kPrmt, 4},
                           {"rcp", Op::kRcp, 2},         {"rem", Op::kRem, 3},
                           {"selp", Op::kSelp, 4},       {"shf", Op::kShf, 4},
                           {"shl", Op::kShl, 3},         {"shr", Op::kShr, 3},
                           {"sqrt", Op::kSqrt, 2},       {"sub", Op::kSub, 3},
                           {"xor", Op::kXor, 3},         {"setp", Op::kSetp, -1},
                           {"ld", Op::kLd, -1},          {"st", Op::kSt, -1},
                           {"bra", Op::kBra, -1},        {"ret", Op::kRet, 0},
                           {"exit", Op::kRet, 0},        {"trap", Op::kTrap, 0},
                           {"shfl", Op::kShfl, -1},      {"bar", Op::kBarrier, -1},
                           {"barrier", Op::kBarrier, -1}};

constexpr std::string_view kCompares[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                          "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
// Unsigned comparisons of integers.
constexpr std::string_view kUnsigned[] = {"", "", "lo", "ls", "hi", "hs"};
constexpr std::string_view kRoundings[] = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"};
constexpr std::string_view kShuffles[] = {"up", "down", "bfly", "idx"};
constexpr std::string_view kParts[] = {"lo", "hi", "wide"};

template <size_t n>
bool index_of(const std::string_view (&list)[n], std::string_view word, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) {
    if (list[i] == word && !word.empty()) return *out = static_cast<uint8_t>(i), true;
  }
  return false;
}

class KernelParser {
 public:
  KernelParser(const Module& module, Kernel& kernel) : module_(module), k_(kernel) {}

  void header(const std::string& text) {
    const size_t open = text.find('(');
    k_.name = trim(text.substr(text.find(".entry") + 6, open - text.find(".entry") - 6));
    if (open == std::string::npos) return;
    for (const std::string& p : split(text.substr(open + 1, text.rfind(')') - open - 1), ',')) {
      const Declared d = declared(trim(p.substr(p.find(".param") + 6)));
      const uint32_t at = aligned(k_.parameter_bytes, std::max(d.align, std::min(d.bytes, 8u)));
      k_.parameter_offsets.push_back(at);
      symbols_[d.name] = {at, Space::kParam};
      k_.parameter_bytes = at + d.bytes;
    }
    constexpr uint32_t kMost = 4096;  // before PTX 8.1
    if (k_.parameter_bytes > kMost)
      throw Error(std::to_string(k_.parameter_bytes) + " bytes of parameters of " + k_.name);
  }

  void directive(const std::string& text) {
    if (text.starts_with(".maxntid")) {
      k_.max_threads = static_cast<uint32_t>(number(split(text.substr(8), ',').at(0)));
    } else if (text.starts_with(".reg")) {
      registers(trim(text.substr(4)));
    } else if (text.starts_with(".shared")) {
      variable(trim(text.substr(7)), kSharedBase, &k_.shared_bytes, Space::kShared);
    } else if (text.starts_with(".local")) {
      variable(trim(text.substr(6)), kLocalBase, &k_.local_bytes, Space::kLocal);
    } else if (!text.starts_with(".pragma") && !text.starts_with(".loc")) {
      throw Error("the directive " + text);
    }
  }

  void label(const std::string& name) { labels_[name] = static_cast<uint32_t>(k_.code.size()); }

  void instruction(const Statement& s) {
    Instruction in;
    in.line = s.line;
    std::string text = s.text;
    if (text[0] == '@') {
      const size_t space = text.find_first_of(" \t");
      if (space == std::string::npos) throw Error("nothing follows " + text);
      in.unless = text[1] == '!';
      in.guard = reg(text.substr(in.unless ? 2 : 1, space - (in.unless ? 2 : 1)));
      text = trim(text.substr(space));
    }
    const size_t space = std::min(text.find_first_of(" \t"), text.size());
    const Words parts = split(text.substr(0, space), '.');
    opcode_ = text.substr(0, space);
    const Words operands = split(text.substr(space), ',');
    const auto name = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const Name& n) { return n.name == parts.at(0); });
    if (name == std::end(kNames)) throw Error("the instruction " + opcode_ + " is not known");
    in.op = name->op;
    modifiers({parts.begin() + 1, parts.end()}, &in);
    if (name->operands >= 0 && static_cast<int>(operands.size()) != name->operands)
      throw Error(opcode_ + " has " + std::to_string(operands.size()) + " operands");
    fill(operands, &in);
    k_.code.push_back(in);
    k_.lines.push_back(s.text);
  }

  void end() {
    for (auto& [at, label] : jumps_) {
      if (!labels_.contains(label)) throw Error("the label " + label + " is missing");
      k_.code[at].target = labels_[label];
    }
    k_.code.push_back({.op = Op::kRet});
    k_.lines.push_back("the end");
    // Constants follow the registers.
    k_.registers = next_;
    k_.initial.assign(next_, 0);
    std::map<Slot, Slot> moved;
    for (const auto& [bits, slot] : constants_) {
      moved[slot] = static_cast<Slot>(k_.initial.size());
      k_.initial.push_back(bits);
    }
    const auto move = [&](Slot& s) {
      if (s != kNoSlot && s >= kConstants) s = moved.at(s);
    };
    for (Instruction& in : k_.code) {
      for (Slot& s : in.src) move(s);
    }
  }

 private:
  static constexpr Slot kConstants = 1u << 30;  // until the number of registers is known
  struct Symbol {
    uint64_t address;
    Space space;
  };

  void registers(const std::string& text) {
    const Words words = split(text, ' ');
    for (const std::string& name : split(text.substr(words.at(0).size()), ',')) {
      const size_t at = name.find('<');
      if (at == std::string::npos) {
        slots_[name] = next_++;
        continue;
      }
      const int64_t count = number(name.substr(at + 1, name.size() - at - 2));
      for (int64_t i = 0; i < count; ++i) slots_[name.substr(0, at) + std::to_string(i)] = next_++;
    }
  }

  void variable(const std::string& text, uint64_t base, uint32_t* bytes, Space space) {
    const Declared d = declared(text);
    *bytes = aligned(*bytes, d.align);
    symbols_[d.name] = {base + *bytes, space};
    *bytes += d.bytes;
  }

  Slot reg(const std::string& name) {
    const auto it = slots_.find(name);
    if (it != slots_.end()) return it->second;
    Slot* special = name == "%tid.x"      ? &k_.tid
                    : name == "%ctaid.x"  ? &k_.ctaid
                    : name == "%ntid.x"   ? &k_.ntid
                    : name == "%nctaid.x" ? &k_.nctaid
                    : name == "%laneid"   ? &k_.laneid
                                          : nullptr;
    if (special == nullptr && (name == "%SP" || name == "%SPL")) return slots_[name] = next_++;
    if (special == nullptr) throw Error("the register " + name + " in " + opcode_);
    *special = next_;
    return slots_[name] = next_++;
  }

  Slot constant(uint64_t bits) {
    const auto [it, fresh] =
        constants_.try_emplace(bits, static_cast<Slot>(kConstants + constants_.size()));
    return it->second;
  }

  bool find_symbol(const std::string& name, Symbol* out) {
    if (const auto it = symbols_.find(name); it != symbols_.end()) return *out = it->second, true;
    const auto it = module_.globals.find(name);
    if (it == module_.globals.end()) return false;
    *out = {it->second.address, Space::kGlobal};
    return true;
  }

  Slot source(const std::string& text) {
    if (text[0] == '%') return reg(text);
    if (slots_.contains(text)) return slots_[text];
    if (text.starts_with("0f") || text.starts_with("0F"))
      return constant(std::strtoull(text.c_str() + 2, nullptr, 16));
    if (text.starts_with("0d") || text.starts_with("0D"))
      return constant(std::strtoull(text.c_str() + 2, nullptr, 16));
    Symbol symbol;
    if (find_symbol(text, &symbol)) return constant(symbol.address);
    return constant(static_cast<uint64_t>(number(text)));
  }

  // "[%rd1+4]", "[name+4]"
  void address(const std::string& text, Instruction* in) {
    if (text.size() < 3 || text.front() != '[' || text.back() != ']')
      throw Error(text + " is not an address");
    std::string inside = text.substr(1, text.size() - 2);
    size_t plus = inside.find_first_of("+-", 1);
    if (plus != std::string::npos) {
      std::string offset = trim(inside.substr(plus));
      if (offset[0] == '+') offset.erase(0, 1);
      in->offset = number(offset);
      inside = trim(inside.substr(0, plus));
    }
    in->src[0] = source(inside);
  }

  // Places of "{%f1, %f2}" or of one operand.
  Words elements(const std::string& text) {
    return text[0] == '{' ? split(text.substr(1, text.size() - 2), ',') : Words{text};
  }

  void modifiers(const Words& words, Instruction* in) {
    for (const std::string& w : words) {
      Type type;
      if (find_type(w, &type)) {
        (in->type == Type::kNone ? in->type : in->from) = type;
      } else if (!modifier(w, in)) {
        throw Error("the modifier ." + w + " of " + opcode_ + " is not known");
      }
    }
  }

  bool modifier(const std::string& w, Instruction* in) {
    static constexpr std::string_view kNothing[] = {
        "sync", "uni", "nc", "volatile", "relaxed", "weak", "cta", "aligned", "to", "b", "full"};
    if (in->op == Op::kSetp) {
      if (w == "and" || w == "or" || w == "xor")
        return in->flags |= w == "and" ? kWithAnd : w == "or" ? kWithOr : kWithXor, true;
      return index_of(kCompares, w, &in->mode) || index_of(kUnsigned, w, &in->mode);
    }
    if (w == "global" || w == "const") return in->space = Space::kGlobal, true;
    if (w == "shared") return in->space = Space::kShared, true;
    if (w == "local") return in->space = Space::kLocal, true;
    if (w == "param") return in->space = Space::kParam, true;
    if (w == "v2" || w == "v4") return in->width = static_cast<uint8_t>(w[1] - '0'), true;
    if (w == "sat") return in->flags |= kSaturate, in->op == Op::kCvt;
    if (in->op == Op::kMul || in->op == Op::kMad) {
      if (index_of(kParts, w, &in->mode)) return true;
      return w == "rn";
    }
    if (in->op == Op::kCvt) return index_of(kRoundings, w, &in->mode);
    if (in->op == Op::kShfl && index_of(kShuffles, w, &in->mode)) return true;
    if (in->op == Op::kShf) {
      if (w == "l" || w == "r") return in->mode = w == "r", true;
      if (w == "clamp") return in->flags |= kClamp, true;
      return w == "wrap";
    }
    if (w == "rn" && is_float(in->type == Type::kNone ? Type::kF32 : in->type)) return true;
    return std::find(std::begin(kNothing), std::end(kNothing), w) != std::end(kNothing);
  }

  void fill(const Words& o, Instruction* in) {
    const auto all = [&](const std::string& text, Slot* to, size_t most, bool sources) {
      const Words list = elements(text);
      if (list.size() > most) throw Error(opcode_ + " has too many elements");
      for (size_t i = 0; i < list.size(); ++i)
        to[i] = list[i] == "_" ? kNoSlot : sources ? source(list[i]) : reg_or_local(list[i]);
      return list.size();
    };
    switch (in->op) {
      case Op::kLd:
        all(o.at(0), in->dst, 4, false);
        return address(o.at(1), in);
      case Op::kSt:
        address(o.at(0), in);
        all(o.at(1), in->src + 1, 4, true);
        return;
      case Op::kBra:
        if (in->guard == kNoSlot && o.empty()) throw Error("bra has no target");
        jumps_.emplace_back(k_.code.size(), o.at(0));
        return;
      case Op::kBarrier:
        if (o.empty() || o[0] != "0") throw Error(opcode_ + " of another barrier than 0");
        return;
      case Op::kRet:
      case Op::kTrap:
        return;
      default:
        break;
    }
    // "d|p": the second result.
    const std::string& first = o.at(0);
    const size_t bar = first.find('|');
    if (first[0] == '{') {
      in->op = Op::kUnpack;
      in->width = static_cast<uint8_t>(all(first, in->dst, 4, false));
    } else {
      in->dst[0] = reg_or_local(trim(first.substr(0, bar)));
      if (bar != std::string::npos) in->dst[1] = reg_or_local(trim(first.substr(bar + 1)));
    }
    if (in->op == Op::kMov && o.at(1)[0] == '{') {
      in->op = Op::kPack;
      in->width = static_cast<uint8_t>(all(o[1], in->src, 4, true));
      return;
    }
    if (o.size() > 6) throw Error(opcode_ + " has too many operands");
    for (size_t i = 1; i < o.size(); ++i) in->src[i - 1] = source(o[i]);
    if (in->op == Op::kCvt && in->from == Type::kNone) throw Error(opcode_ + " lacks a type");
  }

  Slot reg_or_local(const std::string& name) {
    const auto it = slots_.find(name);
    return it != slots_.end() ? it->second : reg(name);
  }

  const Module& module_;
  Kernel& k_;
  std::map<std::string, Slot> slots_;
  std::map<uint64_t, Slot> constants_;
  std::map<std::string, Symbol> symbols_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;
  std::string opcode_;
  Slot next_ = 0;
};

class ModuleParser {
 public:
  ModuleParser(Placement& placement, Module* out) : placement_(placement), m_(*out) {}

  void run(std::string_view text) {
    for (const Statement& s : statements(without_comments(text))) {
      line_ = s.line;
      statement(s);
    }
    if (kernel_ != nullptr) throw Error("a kernel does not end");
    if (m_.version == 0 || m_.target.empty()) throw Error("there is no .version or no .target");
  }
  uint32_t line() const { return line_; }

 private:
  void statement(const Statement& s) {
    const std::string& t = s.text;
    if (t == "{") {
      ++depth_;
    } else if (t == "}") {
      if (--depth_ == 0) finish();
    } else if (depth_ == 0) {
      outside(t);
    } else if (parser_ == nullptr) {
      throw Error("outside of a kernel: " + t);
    } else if (t.back() == ':') {
      parser_->label(t.substr(0, t.size() - 1));
    } else if (t[0] == '.') {
      parser_->directive(t);
    } else {
      parser_->instruction(s);
    }
  }

  void outside(const std::string& t) {
    if (t.starts_with(".version")) {
      const std::string v = trim(t.substr(8));
      m_.version = std::atoi(v.c_str()) * 10 + std::atoi(v.c_str() + (v.find('.') + 1));
    } else if (t.starts_with(".target")) {
      m_.target = trim(t.substr(7));
    } else if (t.starts_with(".address_size")) {
      if (trim(t.substr(13)) != "64") throw Error("addresses of " + t.substr(13) + " bits");
    } else if (t.find(".entry") != std::string::npos) {
      kernel_ = std::make_unique<Kernel>();
      parser_ = std::make_unique<KernelParser>(m_, *kernel_);
      parser_->header(t);
    } else if (t.starts_with(".maxntid") && parser_ != nullptr) {
      parser_->directive(t);
    } else {
      global(t);
    }
  }

  void global(std::string t) {
    for (const char* word : {".visible", ".extern", ".weak"}) {
      if (t.starts_with(word)) t = trim(t.substr(std::strlen(word)));
    }
    if (!t.starts_with(".global") && !t.starts_with(".const")) throw Error("the directive " + t);
    const Declared d = declared(trim(t.substr(t.find(' '))));
    m_.globals[d.name] = {placement_.place(d.bytes), d.initial};
  }

  void finish() {
    if (kernel_ == nullptr) throw Error("a brace closes nothing");
    parser_->end();
    parser_.reset();
    const std::string name = kernel_->name;
    m_.kernels[name] = std::move(kernel_);
  }

  Placement& placement_;
  Module& m_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<KernelParser> parser_;
  uint32_t line_ = 0;
  int depth_ = 0;
};

}  // namespace

int bytes_of(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kS8:
    case Type::kPred:
      return 1;
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
      return 2;
    case Type::kU32:
    case Type::kS32:
    case Type::kF32:
      return 4;
    default:
      return 8;
  }
}
bool is_signed(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}
bool is_float(Type type) {
  return type == Type::kF16 || type == Type::kF32 || type == Type::kF64;
}

bool parse(std::string_view text, Placement& placement, Module* out, std::string* why) {
  ModuleParser parser(placement, out);
  try {
    parser.run(text);
    return true;
  } catch (const Error& error) {
    *why = "line " + std::to_string(parser.line()) + ": " + error.what();
  } catch (const std::out_of_range&) {
    *why = "line " + std::to_string(parser.line()) + ": operands are missing";
  }
  return false;
}

}  // namespace fake_cuda
