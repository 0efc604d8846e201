// One printer for all dialects. They differ in how a kernel begins and in address spaces. Trees for
// work items (OpenCL C, CUDA C++, HIP C++, MSL) have only scalars.
#include "tenon/kernelgen/print/print.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

namespace tenon::kernelgen {
namespace {

class Text {
 public:
  Text(const LoopTree& tree, Dialect dialect, Prelude& prelude)
      : t_(tree),
        p_(prelude),
        opencl_(dialect == Dialect::kOpenCl),
        metal_(dialect == Dialect::kMetal),
        items_(dialect != Dialect::kCpp),
        global_(opencl_  ? "__global "
                : metal_ ? "device "
                         : "") {}

  std::string run() {
    begin();
    nodes(t_.body);
    out_ += "}\n";
    return out_;
  }

 private:
  std::string v(ValueId x) const {
    if (x == t_.begin) return "begin";
    if (x == t_.end) return "end";
    return "v" + std::to_string(x);
  }
  DType type(ValueId x) const { return t_.values[x].type; }
  uint32_t lanes(ValueId x) const { return t_.values[x].lanes; }
  std::string type_text(ValueId x) { return p_.type(type(x), lanes(x)); }

  void line(const std::string& s) {
    out_.append(indent_ * 2, ' ');
    out_ += s;
    out_ += '\n';
  }
  void define(ValueId dst, const std::string& value) {
    line("const " + type_text(dst) + " " + v(dst) + " = " + value + ";");
  }

  void begin() {
    const auto& buffers = t_.buffers;
    if (items_) return begin_item();
    out_ += "extern \"C\" __attribute__((visibility(\"default\"))) void " + t_.name +
            "(void* const* buf, const i64* ext, i64 begin, i64 end, void* scratch) {\n";
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string e = p_.memory_type(buffers[i].type);
      const std::string c = buffers[i].written ? "" : "const ";
      line(c + e + "* const b" + std::to_string(i) + " = (" + c + e + "*)buf[" + std::to_string(i) +
           "];");
    }
    line("(void)buf; (void)ext; (void)scratch;");
  }

  // A kernel of one work item.
  void begin_item() {
    const std::string group = std::to_string(t_.group);
    out_ += opencl_  ? "__kernel "
            : metal_ ? "[[kernel, max_total_threads_per_threadgroup(" + group + ")]] "
                     : "KERNEL ";
    if (t_.group != 0 && !metal_) {
      out_ += opencl_ ? "__attribute__((reqd_work_group_size(" + group + ", 1, 1))) "
                      : "__attribute__((GROUP_OF(" + group + "))) ";
    }
    out_ += "void " + t_.name + "(" + parameters() + ") {\n";
    for (size_t i = 0; i < t_.shared.size(); ++i) {
      line((opencl_  ? "__local "
            : metal_ ? "threadgroup "
                     : "SHARED ") +
           p_.memory_type(t_.shared[i].type) + " s" + std::to_string(i) + "[" +
           std::to_string(t_.shared[i].elements) + "]" +
           (t_.shared[i].wide && !metal_ ? " __attribute__((aligned(16)))" : "") + ";");
    }
    // Whole groups start, so the last may have surplus items.
    if (t_.group != 0 && !t_.together)
      line("if (" + item() + " >= " + size_text(t_.range) + ") return;");
    if (!t_.scratch_bytes.words.empty()) {
      line(global_ + "u8* scratch = scratch_all + " + item() + " * (" +
           size_text(t_.scratch_bytes) + ");");
    }
  }

  std::string parameters() const {
    std::string out;
    size_t count = 0;
    const auto add = [&](const std::string& p) {
      out += (out.empty() ? "" : ", ") + p;
      if (metal_) out += " [[buffer(" + std::to_string(count++) + ")]]";
    };
    for (size_t i = 0; i < t_.buffers.size(); ++i) {
      add(global_ + (t_.buffers[i].written ? "" : "const ") + p_.memory_type(t_.buffers[i].type) +
          "* b" + std::to_string(i));
    }
    for (uint32_t i = 0; i < t_.extent_count; ++i)
      add((metal_ ? "constant i64& n" : "i64 n") + std::to_string(i));
    if (!t_.scratch_bytes.words.empty()) add(global_ + "u8* scratch_all");
    if (metal_)
      out +=
          ", u32 item [[thread_position_in_threadgroup]], u32 group "
          "[[threadgroup_position_in_grid]]";
    return out;
  }

  std::string local_id() const {
    return opencl_ ? "(i64)get_local_id(0)" : metal_ ? "(i64)item" : "local_id()";
  }
  // The index of the work item in the range.
  std::string item() const {
    if (metal_)
      return t_.together ? "(i64)group" : "((i64)group * " + std::to_string(t_.group) + " + item)";
    if (!opencl_) return t_.together ? "group_id()" : "global_id(" + std::to_string(t_.group) + ")";
    return t_.together ? "(i64)get_group_id(0)" : "(i64)get_global_id(0)";
  }

  // A size program in C, over n0, n1...
  static std::string size_text(const SizeProgram& p) {
    std::vector<std::string> stack;
    for (size_t i = 0; i + 1 < p.words.size(); i += 2) {
      const int64_t w = p.words[i + 1];
      if (p.words[i] < 2) {
        stack.push_back(p.words[i] == 0 ? std::to_string(w) + "L" : "n" + std::to_string(w));
        continue;
      }
      const std::string b = stack.back();
      stack.pop_back();
      if (w == TENON_S_MIN || w == TENON_S_MAX) {
        stack.back() =
            std::string(w == TENON_S_MIN ? "min(" : "max(") + stack.back() + ", " + b + ")";
        continue;
      }
      const char* op = w == TENON_S_ADD   ? " + "
                       : w == TENON_S_SUB ? " - "
                       : w == TENON_S_MUL ? " * "
                       : w == kMod        ? " % "
                                          : " / ";
      stack.back() = "(" + stack.back() + op + b + ")";
    }
    return stack.empty() ? "0" : stack.back();
  }

  // ---- Constants ----

  std::string number(const Node& n) {
    if (!is_float(n.type)) {
      if (n.type == TENON_U64)
        return std::to_string(static_cast<uint64_t>(n.bits)) + (items_ ? "UL" : "ull");
      if (n.bits == INT64_MIN)
        return items_ ? "(-9223372036854775807L - 1)" : "(-9223372036854775807ll - 1)";
      if (n.type == TENON_I64) return std::to_string(n.bits) + (items_ ? "L" : "ll");
      if (n.type == TENON_I32 && n.bits == INT32_MIN) return "(-2147483647 - 1)";
      return "(" + p_.type(n.type, 1) + ")" + std::to_string(n.bits) +
             (n.type == TENON_U32 ? "u" : "");
    }
    const double d = std::bit_cast<double>(n.bits);
    if (n.type == TENON_F16 || n.type == TENON_BF16) {
      return p_.need_convert(TENON_F32, n.type, 1, false) + "(" + float_text(d, TENON_F32) + ")";
    }
    return float_text(d, n.type);
  }

  static std::string float_text(double d, DType t) {
    const char* s = t == TENON_F32 ? "f32" : "f64";
    if (std::isnan(d)) return std::string("NAN_") + s;
    if (std::isinf(d)) return std::string(d < 0 ? "-INF_" : "INF_") + s;
    char buf[48];
    std::snprintf(buf, sizeof buf, t == TENON_F32 ? "%.9g" : "%.17g", d);
    std::string r = buf;
    if (r.find_first_of(".e") == std::string::npos) r += ".0";
    return t == TENON_F32 ? r + "f" : r;
  }

  // ---- Operations ----

  std::string call(const std::string& name, const Node& n) {
    std::string s = name + "(";
    for (int i = 0; i < 3 && n.args[i] != kNoValue; ++i) s += (i ? ", " : "") + v(n.args[i]);
    return s + ")";
  }

  std::string compare(const Node& n) {
    static constexpr const char* kRelations[] = {"==", "!=", "<", "<=", ">", ">="};
    const ValueId a = n.args[0];
    std::string s = "(" + v(a) + " " + kRelations[n.ref % 6] + " " + v(n.args[1]) + ")";
    return to_pred(s, type(a), lanes(a));
  }

  // Converts the result of a comparison of elements of type t to a pred value.
  std::string to_pred(const std::string& s, DType t, uint32_t n) {
    if (n == 1 || t == TENON_PRED || size_of(t) == 4) return s;
    return "CVTV(" + p_.type(TENON_PRED, n) + ", " + s + ")";
  }

  std::string pred_op(const Node& n) {
    const std::string a = v(n.args[0]), b = n.args[1] == kNoValue ? "" : v(n.args[1]);
    const bool vector = lanes(n.dst) > 1;
    switch (n.op) {
      case TENON_S_AND:
      case TENON_S_MUL:
      case TENON_S_MIN:
        return "(" + a + " & " + b + ")";
      case TENON_S_OR:
      case TENON_S_ADD:
      case TENON_S_MAX:
        return "(" + a + " | " + b + ")";
      case TENON_S_XOR:
        return "(" + a + " ^ " + b + ")";
      default:
        return vector ? "~" + a : "!" + a;
    }
  }

  static const char* function(uint16_t op) {
    switch (op) {
      case kFloorDiv:
        return "fdiv";
      case kMod:
        return "fmod";
      default:
        return nullptr;
    }
  }

  std::string operation(const Node& n) {
    const DType t = type(n.dst);
    const uint32_t w = lanes(n.dst);
    switch (n.op) {
      case TENON_S_CMP:
        return compare(n);
      case TENON_S_IS_NAN:
        return to_pred("(" + v(n.args[0]) + " != " + v(n.args[0]) + ")", type(n.args[0]), w);
      case TENON_S_SELECT:
        return w > 1 ? p_.need("sel", t, w) + "(" + v(n.args[0]) + ", " + held(n.args[1]) + ", " +
                           held(n.args[2]) + ")"
                     : "(" + v(n.args[0]) + " ? " + v(n.args[1]) + " : " + v(n.args[2]) + ")";
      case TENON_S_CONVERT:
        if (in_range(n.args[0], t)) return call(p_.need_narrowing(t, w), n);
        [[fallthrough]];
      case kRound:
        return call(p_.need_convert(type(n.args[0]), t, w, false), n);
      case TENON_S_CONVERT_WRAP:
        return call(p_.need_convert(type(n.args[0]), t, w, true), n);
      case TENON_S_BITCAST_RESULT:
        return "BITS(" + type_text(n.dst) + ", " + v(n.args[0]) + ")";
      default:
        break;
    }
    if (t == TENON_PRED) return pred_op(n);
    const bool f = t == TENON_F32 || t == TENON_F64;
    const char* infix = nullptr;
    if (n.op == TENON_S_ADD) infix = " + ";
    if (n.op == TENON_S_SUB) infix = " - ";
    if (n.op == TENON_S_MUL) infix = " * ";
    if (n.op == TENON_S_DIV && f) infix = " / ";
    // Scalar i64 index arithmetic, which never wraps, uses plain operators.
    const bool index = t == TENON_I64 && w == 1 && n.bits == 1;
    if (infix && (f || index)) return v(n.args[0]) + infix + v(n.args[1]);
    if (index && n.op == kFloorDiv) return v(n.args[0]) + " / " + v(n.args[1]);
    if (index && n.op == kMod) return v(n.args[0]) + " % " + v(n.args[1]);
    if (n.op == TENON_S_NEG && f) return "-" + v(n.args[0]);
    if (w > 1 && f && (n.op == TENON_S_MAX || n.op == TENON_S_MIN)) {
      if (const std::string text = bounded(n, t, w); !text.empty()) return text;
    }
    const char* special = function(n.op);
    const std::string name(special ? special : name_of_op(n.op));
    return call(p_.need(w > 1 && is_integer(t) && divides_by_number(n) ? name + "c" : name, t, w),
                n);
  }

  bool is_plain_vector(const Node& load) const {
    const uint32_t bytes = size_of(load.type) * lanes(load.dst);
    return p_.holds() && load.space == Space::kBuffer && load.args[1] == kNoValue &&
           load.stride == kNoValue && lanes(load.args[0]) == 1 && load.type != TENON_PRED &&
           lanes(load.dst) > 1 && bytes >= 16 && bytes <= 64;
  }

  // The operand of a select. What was loaded stays a plain load of a whole vector: clang would make
  // a load and a select with 0 one masked load, and prefetchers follow those badly. Streams from
  // memory lost a third of their speed.
  std::string held(ValueId x) {
    return loaded_.contains(x) || computed_.contains(x)
               ? p_.need("held", type(x), lanes(x)) + "(" + v(x) + ")"
               : v(x);
  }

  // Whether the divisor is in the text and no special case.
  bool divides_by_number(const Node& n) const {
    if (n.op != TENON_S_DIV && n.op != TENON_S_REM && n.op != kFloorDiv && n.op != kMod)
      return false;
    const auto by = constants_.find(n.args[1]);
    const bool index = n.op == kFloorDiv || n.op == kMod;
    return by != constants_.end() && (index ? by->second > 0 : by->second != 0 && by->second != -1);
  }

  // max or min with a number that is neither NaN nor 0, whose sign would matter: one instruction.
  // The maximum with +0 is two: adding +0 turns -0 to +0.
  std::string bounded(const Node& n, DType t, uint32_t w) {
    const bool max = n.op == TENON_S_MAX;
    for (int i = 0; i < 2; ++i) {
      const auto known = constants_.find(n.args[i]);
      if (known == constants_.end()) continue;
      const double c = std::bit_cast<double>(known->second);
      const ValueId x = n.args[1 - i];
      if (std::isnan(c) || (c == 0 && (!max || std::signbit(c)))) continue;
      const Bounds of_x = bounds_[x];
      bounds_[n.dst] = max ? Bounds{std::max(of_x.low, c), std::max(of_x.high, c)}
                           : Bounds{std::min(of_x.low, c), std::min(of_x.high, c)};
      const std::string name = c == 0 ? "max0" : max ? "maxc" : "minc";
      return p_.need(name, t, w) + "(" + v(x) + ", " + v(n.args[i]) + ")";
    }
    return "";
  }

  // Whether a vector of f32 is NaN or between limits that the integer type holds.
  bool in_range(ValueId x, DType to) const {
    const auto known = bounds_.find(x);
    if (known == bounds_.end() || type(x) != TENON_F32 || !is_integer(to) || size_of(to) > 2 ||
        lanes(x) < 2)
      return false;
    const double top = std::ldexp(1.0, static_cast<int>(8 * size_of(to)) - (is_signed(to) ? 1 : 0));
    return known->second.low >= (is_signed(to) ? -top : 0) && known->second.high <= top - 1;
  }

  // ---- Memory ----

  std::string pointer(const Node& n, bool scalar_address) {
    std::string base;
    if (n.space == Space::kBuffer) base = "b" + std::to_string(n.ref);
    if (n.space == Space::kLocal) base = "l" + std::to_string(n.ref);
    if (n.space == Space::kShared) base = "s" + std::to_string(n.ref);
    if (n.space == Space::kScratch) {
      base = "((" + global_ + p_.memory_type(n.type) + "*)scratch)";
    }
    return scalar_address ? base + " + " + v(n.args[0]) : base;
  }

  // A pointer to all lanes, which are contiguous and aligned.
  std::string wide_pointer(const Node& n, ValueId value, const std::string& access) {
    const std::string space = n.space != Space::kShared ? global_ : opencl_ ? "__local " : "";
    return "(" + space + access + type_text(value) + "*)(" + pointer(n, true) + ")";
  }

  std::string zero(DType t, uint32_t w) { return "(" + p_.type(t, w) + ")0"; }

  std::string load(const Node& n) {
    const uint32_t w = lanes(n.dst);
    const ValueId mask = n.args[1];
    const std::string other = n.args[2] != kNoValue ? v(n.args[2]) : zero(n.type, w);
    if (items_ && w > 1) return "*(" + wide_pointer(n, n.dst, "const ") + ")";
    if (w == 1) {
      std::string at = "*(" + pointer(n, true) + ")";
      if (mask != kNoValue) at = "(" + v(mask) + " ? " + at + " : " + other + ")";
      return at;
    }
    const std::string p = pointer(n, lanes(n.args[0]) == 1);
    if (lanes(n.args[0]) > 1)
      return p_.need("gam", n.type, w) + "(" + p + ", " + wide(n.args[0]) + ", " +
             mask_or_all(mask, w) + ", " + other + ")";
    if (backwards(n)) {
      if (mask == kNoValue) return p_.need("ldr", n.type, w) + "(" + p + ")";
      return p_.need("ldrm", n.type, w) + "(" + p + ", " + v(mask) + ", " + other + ")";
    }
    if (n.stride != kNoValue) {
      if (mask == kNoValue) return p_.need("lds", n.type, w) + "(" + p + ", " + v(n.stride) + ")";
      return p_.need("ldsm", n.type, w) + "(" + p + ", " + v(n.stride) + ", " + v(mask) + ", " +
             other + ")";
    }
    if (mask == kNoValue) return p_.need("ld", n.type, w) + "(" + p + ")";
    return p_.need("ldm", n.type, w) + "(" + p + ", " + v(mask) + ", " + other + ")";
  }

  // Whether lanes run back through memory, one element after another.
  bool backwards(const Node& n) const {
    const auto by = constants_.find(n.stride);
    return n.stride != kNoValue && by != constants_.end() && by->second == -1;
  }

  std::string wide(ValueId index) {
    if (type(index) == TENON_I64) return v(index);
    return "CVTV(" + p_.type(TENON_I64, lanes(index)) + ", " + v(index) + ")";
  }
  std::string mask_or_all(ValueId mask, uint32_t w) {
    return mask != kNoValue ? v(mask) : "(" + p_.type(TENON_PRED, w) + ")-1";
  }

  void store(const Node& n) {
    const ValueId value = n.args[1], mask = n.args[2];
    const uint32_t w = lanes(value);
    // Metal's compiler joins what lies in shared memory itself.
    if (metal_ && w > 1 && n.space == Space::kShared) {
      for (uint32_t l = 0; l < w; ++l)
        line("*(" + pointer(n, true) + " + " + std::to_string(l) + ") = " + v(value) + "." +
             "xyzw"[l] + ";");
      return;
    }
    if (items_ && w > 1) return line("*(" + wide_pointer(n, value, "") + ") = " + v(value) + ";");
    const std::string p = pointer(n, lanes(n.args[0]) == 1);
    if (w == 1) {
      const std::string x = n.type == TENON_PRED ? v(value) + " != 0" : v(value);
      const std::string s = "*(" + p + ") = " + x + ";";
      line(mask == kNoValue ? s : "if (" + v(mask) + ") " + s);
      return;
    }
    if (lanes(n.args[0]) > 1) {
      line(p_.need("scm", n.type, w) + "(" + p + ", " + wide(n.args[0]) + ", " + v(value) + ", " +
           mask_or_all(mask, w) + ");");
    } else if (backwards(n)) {
      line(mask == kNoValue
               ? p_.need("str", n.type, w) + "(" + p + ", " + v(value) + ");"
               : p_.need("strm", n.type, w) + "(" + p + ", " + v(value) + ", " + v(mask) + ");");
    } else if (n.stride != kNoValue) {
      line(p_.need("stsm", n.type, w) + "(" + p + ", " + v(n.stride) + ", " + v(value) + ", " +
           mask_or_all(mask, w) + ");");
    } else if (n.stream) {
      line(p_.need("stn", n.type, w) + "(" + p + ", " + v(value) + ", " +
           (n.args[3] == kNoValue ? "true" : v(n.args[3])) + ");");
    } else if (mask == kNoValue) {
      line(p_.need("st", n.type, w) + "(" + p + ", " + v(value) + ");");
    } else {
      line(p_.need("stm", n.type, w) + "(" + p + ", " + v(value) + ", " + v(mask) + ");");
    }
  }

  // Lane l of result o is lane (o * lanes + l) / n of operand (o * lanes + l) mod n. Operands with
  // even and with odd numbers are interleaved apart, then with each other. Of an odd number, they
  // are shuffled in one after another.
  std::vector<std::string> interleaved(const std::vector<std::string>& x, int64_t lanes) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<std::string> out;
    if (n > 2 && n % 2 == 0) {
      std::vector<std::string> halves[2];
      for (size_t i = 0; i < x.size(); ++i) halves[i % 2].push_back(x[i]);
      for (auto& half : halves) half = interleaved(half, lanes);
      for (size_t i = 0; i < halves[0].size(); ++i) {
        const auto two = interleaved({halves[0][i], halves[1][i]}, lanes);
        out.insert(out.end(), two.begin(), two.end());
      }
      return out;
    }
    for (int64_t o = 0; o < n; ++o) {
      std::string value = x[0];
      for (int64_t next = 1; next < n; ++next) {
        std::string picks;
        for (int64_t l = 0; l < lanes; ++l) {
          const int64_t from = (o * lanes + l) % n, lane = (o * lanes + l) / n;
          picks += ", " + std::to_string(from > next    ? -1
                                         : from == next ? lanes + lane
                                         : next == 1    ? lane
                                                        : l);
        }
        const std::string name = "x" + std::to_string(shuffles_++);
        line("const auto " + name + " = __builtin_shufflevector(" + value + ", " +
             x[static_cast<size_t>(next)] + picks + ");");
        value = name;
      }
      out.push_back(value);
    }
    return out;
  }

  void interleave(const Node& n) {
    const uint32_t lanes = t_.values[n.list[0]].lanes;
    std::vector<std::string> operands;
    for (ValueId x : n.list) operands.push_back(v(x));
    const std::string to = pointer(n, true);
    int64_t at = 0;
    for (const std::string& value : interleaved(operands, lanes)) {
      line(p_.need("st", n.type, lanes) + "(" + to + " + " + std::to_string(at) + ", " + value +
           ");");
      at += lanes;
    }
  }

  void mma(const Node& n) {
    const DType c = is_integer(n.type)
                        ? static_cast<DType>(size_of(n.type) == 4 ? TENON_U32 : TENON_U64)
                        : n.type;
    const std::string e = p_.memory_type(n.steps > 1 ? operand_type(n.type, n.steps, false) : c),
                      f = p_.memory_type(n.steps > 1 ? operand_type(n.type, n.steps, true)
                                         : n.read != TENON_DTYPE_NONE ? n.read
                                                                      : c);
    auto at = [&](bool in_scratch, uint32_t buffer, const std::string& element) {
      return "((const " + element +
             (in_scratch ? "*)scratch)" : "*)b" + std::to_string(buffer) + ")");
    };
    const auto height = static_cast<uint32_t>(n.list.size()),
               vectors = static_cast<uint32_t>(n.bits);
    if (n.few_bits != 0)
      return mma_few_bits(n, height, vectors, at(n.space == Space::kScratch, n.ref, e));
    std::string s = p_.need_mma(n.type, n.lanes, height, vectors, n.steps, n.read) + "(";
    for (ValueId row : n.list)
      s += at(n.space == Space::kScratch, n.ref, e) + " + " + v(row) + ", ";
    s += v(n.args[1]) + ", " + at(n.b_buffer < 0, static_cast<uint32_t>(n.b_buffer), f) + " + " +
         v(n.args[0]) + ", " + v(n.stride) + ", " + v(n.args[2]) + ", (" + p_.memory_type(c) +
         "*)l" + std::to_string(n.op) + ");";
    line(s);
  }

  void mma_few_bits(const Node& n, uint32_t height, uint32_t vectors, const std::string& a) {
    const auto buffer = [&](int32_t ordinal, ValueId offset) {
      return "b" + std::to_string(ordinal) + " + " + v(offset);
    };
    const char* zeros = n.zero_buffer >= 0 ? "panels" : n.zero_buffer == -1 ? "one" : "none";
    const auto b = static_cast<uint32_t>(n.b_buffer);
    const FewBitsTile tile = {.rows = height,
                              .vectors = vectors,
                              .bits = n.few_bits,
                              .is_signed = t_.buffers[b].type == TENON_I8,
                              .quads = n.quads,
                              .zeros = zeros};
    std::string s =
        (n.digits != 0 ? p_.need_mma_digits(n.lanes, tile) : p_.need_mma_few_bits(n.lanes, tile)) +
        "(";
    for (ValueId row : n.list) s += a + " + " + v(row) + ", ";
    for (size_t i = 0; i < n.list_d.size(); ++i)
      s += (i % 2 == 0 ? "((const i32*)scratch) + " : "((const f32*)scratch) + ") + v(n.list_d[i]) +
           ", ";
    s += v(n.args[1]) + ", " + (n.digits != 0 ? std::to_string(n.digits) + ", " : "") +
         buffer(n.b_buffer, n.args[0]) + ", " + v(n.stride) + ", " + v(n.args[2]) + ", " +
         v(n.args[3]) + ", " + buffer(n.scale_buffer, n.list_b[0]);
    if (n.zero_buffer >= 0) s += ", " + buffer(n.zero_buffer, n.list_b[1]);
    if (n.zero_buffer == -1) s += ", " + v(n.list_b[1]);
    line(s + ", l" + std::to_string(n.op) + ");");
  }

  // One row after another: the keys are in the L1 cache after the first.
  void dots(const Node& n) {
    const std::string name = p_.need_dots(n.type, n.lanes), e = p_.memory_type(n.type),
                      rows = n.space == Space::kScratch ? "((const " + e + "*)scratch)"
                                                        : "b" + std::to_string(n.ref);
    for (size_t r = 0; r < n.list.size(); ++r) {
      line(name + "(" + rows + " + " + v(n.list[r]) + ", b" + std::to_string(n.b_buffer) + " + " +
           v(n.args[0]) + ", " + v(n.stride) + ", " + v(n.args[2]) + ", " + v(n.args[1]) + ", l" +
           std::to_string(n.op) + " + " + std::to_string(static_cast<int64_t>(r) * n.bits) + ");");
    }
  }
  void digits(const Node& n) {
    const std::string from = n.space == Space::kScratch
                                 ? "((const f32*)scratch)"
                                 : "((const f32*)b" + std::to_string(n.ref) + ")";
    line(p_.need_digits(n.lanes) + "(" + from + " + " + v(n.args[0]) + ", " + v(n.args[2]) + ", " +
         std::to_string(n.bits) + ", ((i32*)scratch) + " + v(n.args[1]) + ", ((f32*)scratch) + " +
         v(n.args[3]) + ");");
  }

  void taps(const Node& n) {
    const std::string table = "((const i64*)scratch) + ";
    const std::string name =
        n.run != 0 ? p_.need_depthwise_runs(n.type, n.read, n.lanes, n.ref,
                                            static_cast<uint32_t>(n.bits), n.run, n.run_step)
        : n.full ? p_.need_depthwise(n.type, n.read, n.lanes, n.ref, static_cast<uint32_t>(n.bits))
                 : p_.need_taps(n.type, n.lanes, n.ref, static_cast<uint32_t>(n.bits), n.steps);
    // Tiles add integers as unsigned ones.
    const std::string as_unsigned =
                          n.type == TENON_I32 ? "(" + p_.memory_type(TENON_U32) + "*)" : "",
                      tile = as_unsigned + "l",
                      weights = n.full && n.type == TENON_I32
                                    ? "(const " + p_.memory_type(TENON_U32) + "*)b"
                                    : "b";
    line(name + "(" + table + v(n.args[0]) + ", " + table + v(n.args[1]) + ", " + weights +
         std::to_string(n.b_buffer) + " + " + v(n.args[3]) + ", " + v(n.args[2]) + ", " +
         v(n.list[0]) + ", " + v(n.stride) + (n.run != 0 ? ", " + v(n.list[1]) : "") + ", " + tile +
         std::to_string(n.op) + ");");
  }

  // ---- Control ----

  void loop(const Node& n) {
    const std::string i = v(n.dst), step = std::to_string(n.bits);
    if (n.bind == Bind::kRange && items_) {
      line("{");
      ++indent_;
      line("const i64 " + i + " = " + item() + ";");
    } else if (n.bind == Bind::kLanes) {
      const std::string mine = n.bits == 1 ? local_id() : local_id() + " * " + step;
      line("for (i64 " + i + " = " + v(n.args[0]) + " + " + mine + "; " + i + " < " + v(n.args[1]) +
           "; " + i + " += " + std::to_string(t_.group * n.bits) + ") {");
      ++indent_;
    } else if (n.bind == Bind::kHalving) {
      line("for (i64 " + i + " = " + v(n.args[0]) + "; " + i + " > 0; " + i + " /= 2) {");
      ++indent_;
    } else {
      if (items_ && n.unroll != 0) line("#pragma unroll " + std::to_string(n.unroll));
      const std::string limit =
          n.full ? i + " + " + step + " <= " + v(n.args[1]) : i + " < " + v(n.args[1]);
      line("for (i64 " + i + " = " + v(n.args[0]) + "; " + limit + "; " + i + " += " + step +
           ") {");
      ++indent_;
    }
    nodes(n.body);
    --indent_;
    line("}");
  }

  // Warps of CUDA and HIP have the width of the target. OpenCL C has no such function; whoever asks
  // for warps there defines `ulong warp_word(ulong x, uint by, uint warp)`.
  std::string from_lane(const Node& n) {
    const std::string x = v(n.args[0]), by = std::to_string(n.bits);
    if (!opencl_) return n.full ? "from_first_lane(" + x + ")" : "from_lane(" + x + ", " + by + ")";
    const DType t = type(n.dst);
    const uint32_t bytes = t == TENON_PRED ? 4 : size_of(t);
    const std::string rest = ", " + by + ", " + std::to_string(n.ref) + ")", T = p_.type(t, 1);
    if (bytes < 4) return "(" + T + ")warp_word((u64)" + x + rest;
    const std::string word = bytes == 4 ? "u32" : "u64";
    return "BITS(" + T + ", (" + word + ")warp_word((u64)BITS(" + word + ", " + x + ")" + rest +
           ")";
  }

  void nodes(const std::vector<Node>& list) {
    for (const Node& n : list) node(n);
  }

  void node(const Node& n) {
    switch (n.kind) {
      case NodeKind::kLoop:
        loop(n);
        break;
      case NodeKind::kIf:
        line("if (" + v(n.args[0]) + ") {");
        ++indent_;
        nodes(n.body);
        --indent_;
        if (!n.other.empty()) {
          line("} else {");
          ++indent_;
          nodes(n.other);
          --indent_;
        }
        line("}");
        break;
      case NodeKind::kConst:
        constants_[n.dst] = n.bits;
        define(n.dst, number(n));
        break;
      case NodeKind::kExt:
        define(n.dst, items_ ? "n" + std::to_string(n.ref) : "ext[" + std::to_string(n.ref) + "]");
        break;
      case NodeKind::kOp:
        define(n.dst, operation(n));
        if (is_float(type(n.dst)) && lanes(n.dst) > 1 &&
            size_of(type(n.dst)) * lanes(n.dst) <= 64 &&
            (loaded_.contains(n.args[0]) || loaded_.contains(n.args[1])) && n.op != TENON_S_SELECT)
          computed_.insert(n.dst);
        break;
      case NodeKind::kSplat: {
        const std::string T = type_text(n.dst);
        if (const auto known = constants_.find(n.args[0]); known != constants_.end())
          constants_[n.dst] = known->second;
        const std::string x =
            type(n.dst) == TENON_PRED ? "-(" + v(n.args[0]) + " != 0)" : v(n.args[0]);
        define(n.dst, "(" + T + ")(" + x + ")");
        break;
      }
      case NodeKind::kIota: {
        std::string list;
        for (uint32_t l = 0; l < lanes(n.dst); ++l) list += (l ? ", " : "") + std::to_string(l);
        const std::string T = type_text(n.dst);
        define(n.dst, "(" + T + ")((" + p_.type(type(n.dst), 1) + ")" + v(n.args[0]) + ") + (" + T +
                          "){" + list + "}");
        break;
      }
      case NodeKind::kShuffle: {
        std::string list;
        const uint32_t w = lanes(n.dst);
        for (uint32_t l = 0; l < w; ++l)
          list += ", " + std::to_string(n.list.empty() ? (l + n.ref) % w : n.list[l]);
        define(n.dst, "__builtin_shufflevector(" + v(n.args[0]) + ", " + v(n.args[0]) + list + ")");
        break;
      }
      case NodeKind::kLane: {
        const std::string lane = v(n.args[0]) + (items_ ? std::string(".") + "xyzw"[n.ref]
                                                        : "[" + std::to_string(n.ref) + "]");
        define(n.dst, type(n.dst) == TENON_PRED ? "(" + lane + " != 0)" : lane);
        break;
      }
      case NodeKind::kJoin: {
        std::string s = type_text(n.dst) + " " + v(n.dst) + ";";
        for (size_t l = 0; l < n.list.size(); ++l)
          s += " " + v(n.dst) + "." + "xyzw"[l] + " = " + v(n.list[l]) + ";";
        line(s);
        break;
      }
      case NodeKind::kLoad:
        define(n.dst, load(n));
        if (is_plain_vector(n)) loaded_.insert(n.dst);
        break;
      case NodeKind::kStore:
        store(n);
        break;
      case NodeKind::kFence:
        line((n.args[0] == kNoValue ? std::string() : "if (" + v(n.args[0]) + ") ") +
             "__builtin_ia32_sfence();");
        break;
      case NodeKind::kVar:
        line(type_text(n.dst) + " " + v(n.dst) + " = " + v(n.args[0]) + ";");
        break;
      case NodeKind::kSet:
        line(v(n.dst) + " = " + v(n.args[0]) + ";");
        break;
      case NodeKind::kLocal:
        line(p_.memory_type(n.type) + " l" + std::to_string(n.ref) + "[" + std::to_string(n.bits) +
             "] " + (items_ ? "" : "__attribute__((aligned(64)))") + ";");
        break;
      case NodeKind::kTranspose:
        line(p_.need("tile", n.type, static_cast<uint32_t>(n.bits)) + "(" + pointer(n, true) +
             ", " + v(n.stride) + ", ((" + p_.memory_type(n.type) + "*)scratch) + " + v(n.args[1]) +
             ", " + v(n.args[2]) + ");");
        break;
      case NodeKind::kPrefetch:
        for (int64_t at = 0; at < n.bits; at += 64 / size_of(n.type))
          line("__builtin_prefetch(" + pointer(n, true) + " + " + std::to_string(at) + ");");
        break;
      case NodeKind::kInterleave:
        interleave(n);
        break;
      case NodeKind::kDigits:
        digits(n);
        break;
      case NodeKind::kMma:
        mma(n);
        break;
      case NodeKind::kDots:
        dots(n);
        break;
      case NodeKind::kAddress:
        define(n.dst, "(i64)(" + pointer(n, true) + ")");
        break;
      case NodeKind::kTaps:
        taps(n);
        break;
      case NodeKind::kSort: {
        auto at = [&](const std::string& e, ValueId x) {
          return "((" + global_ + e + "*)scratch) + " + v(x);
        };
        const std::string e = p_.memory_type(n.type);
        line((n.bits != 0 ? p_.need_select(n.type) : p_.need_sort(n.type)) + "(" +
             at(e, n.args[0]) + ", " + at("i64", n.args[1]) + ", " + at(e, n.args[2]) + ", " +
             at("i64", n.args[3]) + ", " + v(n.stride) +
             (n.bits != 0 ? ", " + std::to_string(n.bits) : "") + ");");
        break;
      }
      case NodeKind::kAnyNan:
        define(n.dst, p_.need_any_nan(n.type, n.lanes) + "(l" + std::to_string(n.op) + ", " +
                          std::to_string(n.ref) + ", " + std::to_string(n.bits) + ", " +
                          v(n.args[0]) + ")");
        break;
      case NodeKind::kLaneId:
        define(n.dst, local_id());
        break;
      case NodeKind::kFromLane:
        define(n.dst, from_lane(n));
        break;
      case NodeKind::kBarrier:
        line(!opencl_      ? (metal_ && n.bits == 0 ? "meet_threads();" : "meet();")
             : n.bits != 0 ? "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
                           : "barrier(CLK_LOCAL_MEM_FENCE);");
        break;
      case NodeKind::kComment:
        line("// " + n.text);
        break;
    }
  }

  const LoopTree& t_;
  Prelude& p_;
  const bool opencl_, metal_, items_;
  const std::string global_;  // the address space of buffers
  // What is known of a float unless it is NaN.
  struct Bounds {
    double low = -INFINITY, high = INFINITY;
  };
  int64_t shuffles_ = 0;
  std::unordered_set<ValueId> loaded_;              // whole vectors, from buffers
  std::unordered_set<ValueId> computed_;            // from these by one instruction, which may load
  std::unordered_map<ValueId, int64_t> constants_;  // Node::bits, also of splats
  std::unordered_map<ValueId, Bounds> bounds_;
  std::string out_;
  size_t indent_ = 1;
};

}  // namespace

std::string print(const LoopTree& tree, Dialect dialect, Prelude& prelude) {
  return Text(tree, dialect, prelude).run();
}

namespace {

// The text of an operation alone, as far as it is a function of the prelude.
void need_operation(const Pool& pool, ExprId e, Prelude* prelude) {
  const Expr& x = pool.at(e);
  const DType from = x.args_count == 0 ? x.type : pool.at(pool.args(e)[0]).type;
  if (x.op == TENON_S_CONVERT || x.op == kRound || x.op == TENON_S_CONVERT_WRAP) {
    prelude->need_convert(from, x.type, 1, x.op == TENON_S_CONVERT_WRAP);
  } else if (x.type == TENON_F32 || x.type == TENON_F64) {
    prelude->need(name_of_op(x.op), x.type, 1);
  }
}

}  // namespace

std::string needs_f64(const Pool& pool, const Target& target) {
  if (target.fp64) return {};
  for (ExprId e = 1; e < pool.size(); ++e) {
    if (pool.at(e).kind != X::kOp) continue;
    Prelude prelude(target);
    need_operation(pool, e, &prelude);
    if (prelude.needs_f64()) return prelude.why();
  }
  return {};
}

}  // namespace tenon::kernelgen
