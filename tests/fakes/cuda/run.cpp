#include "run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fake_cuda {
namespace {

constexpr uint32_t kWarp = 32;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

float f32(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
double f64(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
uint64_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint64_t bits(double x) {
  return std::bit_cast<uint64_t>(x);
}

// Calls f with the operand as its type; the result is the bits of what f returns.
template <class F>
uint64_t integer(Type t, F f) {
  switch (t) {
    case Type::kPred:
      return f(uint8_t{}) & 1;
    case Type::kU8:
      return f(uint8_t{});
    case Type::kU16:
      return f(uint16_t{});
    case Type::kU32:
      return f(uint32_t{});
    case Type::kU64:
      return f(uint64_t{});
    case Type::kS8:
      return static_cast<uint64_t>(f(int8_t{}));
    case Type::kS16:
      return static_cast<uint64_t>(f(int16_t{}));
    case Type::kS32:
      return static_cast<uint32_t>(f(int32_t{}));
    case Type::kS64:
      return static_cast<uint64_t>(f(int64_t{}));
    default:
      throw Fault("an integer instruction of another type");
  }
}

template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;

uint64_t arithmetic(const Instruction& in, uint64_t a, uint64_t b) {
  return integer(in.type, [&](auto zero) {
    using T = decltype(zero);
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    switch (in.op) {
      case Op::kAdd:
        return static_cast<T>(a + b);
      case Op::kSub:
        return static_cast<T>(a - b);
      case Op::kMin:
        return std::min(x, y);
      case Op::kMax:
        return std::max(x, y);
      // The result of a division by zero is unspecified; that of the hardware is all ones.
      case Op::kDiv:
        return y == 0 ? static_cast<T>(~T{0}) : static_cast<T>(static_cast<Wide<T>>(x) / y);
      case Op::kRem:
        return y == 0 ? x : static_cast<T>(static_cast<Wide<T>>(x) % y);
      case Op::kAbs:
        return static_cast<T>(x < T{0} ? T{0} - static_cast<uint64_t>(x) : x);
      case Op::kNeg:
        return static_cast<T>(0 - a);
      default:
        throw Fault("an instruction without meaning");
    }
  });
}

template <class T>
T float_extreme(bool least, T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

template <class T>
uint64_t float_arithmetic(Op op, T a, T b, T c) {
  switch (op) {
    case Op::kAdd:
      return bits(a + b);
    case Op::kSub:
      return bits(a - b);
    case Op::kMul:
      return bits(a * b);
    case Op::kDiv:
      return bits(a / b);
    case Op::kFma:
      return bits(std::fma(a, b, c));
    case Op::kMin:
      return bits(float_extreme(true, a, b));
    case Op::kMax:
      return bits(float_extreme(false, a, b));
    case Op::kAbs:
      return bits(std::fabs(a));
    case Op::kNeg:
      return bits(-a);
    case Op::kSqrt:
      return bits(std::sqrt(a));
    case Op::kRcp:
      return bits(T{1} / a);
    case Op::kCopysign:  // the sign of the first, the magnitude of the second
      return bits(std::copysign(b, a));
    default:
      throw Fault("an instruction without meaning for floats");
  }
}

template <class T>
bool compare(uint8_t how, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (how) {
    case kEq:
      return a == b;
    case kNe:
      return !unordered && a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
    case kEqu:
      return unordered || a == b;
    case kNeu:
      return unordered || a != b;
    case kLtu:
      return unordered || a < b;
    case kLeu:
      return unordered || a <= b;
    case kGtu:
      return unordered || a > b;
    case kGeu:
      return unordered || a >= b;
    case kNum:
      return !unordered;
    default:
      return unordered;
  }
}

bool compare(const Instruction& in, uint64_t a, uint64_t b) {
  if (in.type == Type::kF32) return compare(in.mode, f32(a), f32(b));
  if (in.type == Type::kF64) return compare(in.mode, f64(a), f64(b));
  return integer(in.type, [&](auto zero) {
           using T = decltype(zero);
           return static_cast<T>(compare<T>(in.mode, static_cast<T>(a), static_cast<T>(b)));
         }) != 0;
}

uint64_t multiply(const Instruction& in, uint64_t a, uint64_t b) {
  if (in.mode == kWide) {
    switch (in.type) {
      case Type::kU16:
        return static_cast<uint32_t>(static_cast<uint16_t>(a)) * static_cast<uint16_t>(b);
      case Type::kS16:
        return static_cast<uint32_t>(int32_t{static_cast<int16_t>(a)} * static_cast<int16_t>(b));
      case Type::kU32:
        return uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b);
      default:
        return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b));
    }
  }
  return integer(in.type, [&](auto zero) {
    using T = decltype(zero);
    const auto product = static_cast<Wide<T>>(static_cast<T>(a)) * static_cast<T>(b);
    return static_cast<T>(in.mode == kHigh ? product >> (8 * sizeof(T)) : product);
  });
}

uint64_t shift(const Instruction& in, uint64_t a, uint64_t by) {
  const auto n = static_cast<uint32_t>(by);
  return integer(in.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T x = static_cast<T>(a);
    if (in.op == Op::kShl) return n >= kBits ? T{0} : static_cast<T>(a << n);
    if (n >= kBits) return static_cast<T>(x < T{0} ? ~T{0} : T{0});
    return static_cast<T>(x >> n);
  });
}

double rounded(double x, uint8_t mode) {
  switch (mode) {
    case kNearestInt:
      return std::nearbyint(x);
    case kZeroInt:
    case kZero:
      return std::trunc(x);
    case kDownInt:
      return std::floor(x);
    case kUpInt:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

// To an integer: saturates, and NaN is 0.
uint64_t to_integer(Type to, double x, uint8_t mode) {
  x = rounded(x, mode);
  return integer(to, [&](auto zero) {
    using T = decltype(zero);
    using L = std::numeric_limits<T>;
    if (std::isnan(x)) return T{0};
    if (x >= std::ldexp(1.0, L::digits)) return L::max();
    if (x <= static_cast<double>(L::min())) return L::min();
    return static_cast<T>(x);
  });
}

template <class T>
uint64_t from_integer(Type from, uint64_t a) {
  if (is_signed(from)) {
    int64_t wide = 0;
    integer(from,
            [&](auto zero) { return wide = static_cast<decltype(zero)>(a), decltype(zero){}; });
    return bits(static_cast<T>(wide));
  }
  return bits(
      static_cast<T>(integer(from, [&](auto zero) { return static_cast<decltype(zero)>(a); })));
}

uint64_t convert(const Instruction& in, uint64_t a) {
  const Type to = in.type, from = in.from;
  if (to == Type::kF16 || from == Type::kF16) throw Fault("cvt of f16 is not known");
  if (!is_float(from)) {
    if (to == Type::kF32) return from_integer<float>(from, a);
    if (to == Type::kF64) return from_integer<double>(from, a);
    const int64_t wide =
        static_cast<int64_t>(is_signed(from) ? [&] {
          int64_t w = 0;
          integer(from,
                  [&](auto zero) { return w = static_cast<decltype(zero)>(a), decltype(zero){}; });
          return w;
        }()
                                             : static_cast<int64_t>(integer(from, [&](auto zero) {
                                                 return static_cast<decltype(zero)>(a);
                                               })));
    return integer(to, [&](auto zero) { return static_cast<decltype(zero)>(wide); });
  }
  const double x = from == Type::kF32 ? f32(a) : f64(a);
  if (!is_float(to)) return to_integer(to, x, in.mode);
  if (in.mode >= kNearestInt) {
    const double r = rounded(x, in.mode);
    return to == Type::kF32 ? bits(static_cast<float>(r)) : bits(r);
  }
  return to == Type::kF32 ? bits(static_cast<float>(x)) : bits(x);
}

uint64_t permute(uint64_t a, uint64_t b, uint64_t select) {
  const uint64_t both = (a & 0xffffffff) | b << 32;
  uint64_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const auto pick = static_cast<int>(select >> (4 * i)) & 15;
    uint64_t byte = both >> (8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
}

uint64_t funnel(const Instruction& in, uint64_t low, uint64_t high, uint64_t by) {
  const uint64_t both = (low & 0xffffffff) | high << 32;
  auto n = static_cast<uint32_t>(by);
  n = in.flags & kClamp ? std::min(n, 32u) : n & 31;
  return static_cast<uint32_t>(in.mode ? both >> n : (n == 32 ? low : both << n >> 32));
}

uint64_t extract(Type t, uint64_t a, uint64_t at, uint64_t length) {
  const uint32_t width = 8 * static_cast<uint32_t>(bytes_of(t));
  const auto n = static_cast<uint32_t>(length & 255), from = static_cast<uint32_t>(at & 255);
  if (n == 0) return 0;
  const uint64_t field = from >= width ? 0 : (a & (~uint64_t{0} >> (64 - width))) >> from;
  const uint32_t kept = std::min(n, width);
  uint64_t value = kept == 64 ? field : field & ((uint64_t{1} << kept) - 1);
  if (is_signed(t)) {
    const uint32_t top = std::min(from + n - 1, width - 1);
    if ((a >> top & 1) != 0 && kept < 64)
      value |= ~uint64_t{0} << std::min(kept, top - std::min(from, top) + 1);
  }
  return integer(t, [&](auto zero) { return static_cast<decltype(zero)>(value); });
}

uint64_t insert(Type t, uint64_t field, uint64_t into, uint64_t at, uint64_t length) {
  const uint32_t width = 8 * static_cast<uint32_t>(bytes_of(t));
  const auto n = static_cast<uint32_t>(length & 255), from = static_cast<uint32_t>(at & 255);
  if (n == 0 || from >= width) return into;
  const uint64_t mask = (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << from;
  const uint64_t out = (into & ~mask) | (field << from & mask);
  return integer(t, [&](auto zero) { return static_cast<decltype(zero)>(out); });
}

// ---- Threads ----

enum class State : uint8_t { kRuns, kAtBarrier, kAtShuffle, kDone };

struct Thread {
  std::vector<uint64_t> r;
  std::vector<unsigned char> local;
  uint32_t pc = 0;
  State state = State::kRuns;
};

class Block {
 public:
  Block(const Grid& grid, Memory& memory) : grid_(grid), k_(*grid.kernel), memory_(memory) {
    threads_.resize(grid.threads);
  }

  void run(uint32_t block) {
    block_ = block;
    shared_.assign(k_.shared_bytes, 0xff);
    begin_ = end_ = 0;
    for (uint32_t i = 0; i < grid_.threads; ++i) start(i);
    for (;;) {
      for (now_ = 0; now_ < grid_.threads; ++now_) {
        if (threads_[now_].state == State::kRuns) step(threads_[now_]);
      }
      if (shuffle()) continue;
      if (!meet()) return;
    }
  }

  std::string where() const {
    const Thread& t = threads_[std::min<size_t>(now_, threads_.size() - 1)];
    const uint32_t at = t.pc == 0 ? 0 : t.pc - 1;
    return "thread " + std::to_string(now_) + " of block " + std::to_string(block_) + " of " +
           k_.name + ", line " + std::to_string(k_.code[at].line) + " `" + k_.lines[at] + "`: ";
  }

 private:
  void start(uint32_t i) {
    Thread& t = threads_[i];
    t.r = k_.initial;
    t.local.assign(k_.local_bytes, 0xff);
    t.pc = 0;
    t.state = State::kRuns;
    const auto set = [&](Slot s, uint64_t value) {
      if (s != kNoSlot) t.r[s] = value;
    };
    set(k_.tid, i);
    set(k_.ctaid, block_);
    set(k_.ntid, grid_.threads);
    set(k_.nctaid, grid_.blocks);
    set(k_.laneid, i % kWarp);
  }

  // All threads that have not ended are at the barrier; false: all have ended.
  bool meet() {
    bool any = false;
    for (Thread& t : threads_) {
      any |= t.state == State::kAtBarrier;
      if (t.state == State::kAtBarrier) t.state = State::kRuns;
    }
    return any;
  }

  // Lets warps go on whose threads have all arrived at the same shuffle. All members of the mask of
  // kernelgen's shuffles are all threads of the warp.
  bool shuffle() {
    bool any = false;
    for (uint32_t first = 0; first < grid_.threads; first += kWarp) {
      const uint32_t end = std::min(first + kWarp, grid_.threads);
      const bool wanted = std::any_of(threads_.begin() + first, threads_.begin() + end,
                                      [](const Thread& t) { return t.state == State::kAtShuffle; });
      if (!wanted) continue;
      now_ = first;
      for (uint32_t i = first; i < end; ++i) {
        if (threads_[i].state != State::kAtShuffle || threads_[i].pc != threads_[first].pc)
          throw Fault("thread " + std::to_string(i) + " of its warp is not at the same shuffle");
      }
      exchange(first, end);
      any = true;
    }
    return any;
  }

  void exchange(uint32_t first, uint32_t end) {
    const Instruction& in = k_.code[threads_[first].pc - 1];
    std::vector<uint64_t> values;
    for (uint32_t i = first; i < end; ++i) values.push_back(threads_[i].r[in.src[0]]);
    for (uint32_t i = first; i < end; ++i) {
      Thread& t = threads_[i];
      const uint32_t lane = i - first;
      const auto b = static_cast<uint32_t>(t.r[in.src[1]]) & 31,
                 c = static_cast<uint32_t>(t.r[in.src[2]]);
      if (static_cast<uint32_t>(t.r[in.src[3]]) != ~0u)
        throw Fault("a shuffle of a part of a warp");
      const uint32_t segment = c >> 8 & 31, limit = (lane & segment) | (c & 31 & ~segment);
      const uint32_t from = in.mode == kShuffleUp     ? lane - b
                            : in.mode == kShuffleDown ? lane + b
                            : in.mode == kShuffleXor  ? lane ^ b
                                                      : (lane & segment) | (b & ~segment);
      const bool inside =
          in.mode == kShuffleUp ? static_cast<int>(from) >= static_cast<int>(limit) : from <= limit;
      if (inside && from >= values.size()) throw Fault("a shuffle reads a lane that is not there");
      t.r[in.dst[0]] = static_cast<uint32_t>(values[inside ? from : lane]);
      if (in.dst[1] != kNoSlot) t.r[in.dst[1]] = inside;
      t.state = State::kRuns;
    }
  }

  unsigned char* place(Thread& t, const Instruction& in, uint64_t bytes, bool write) {
    const uint64_t at = t.r[in.src[0]] + static_cast<uint64_t>(in.offset);
    if (at % bytes != 0) throw Fault("an address that is not aligned, " + std::to_string(at));
    const auto inside = [&](uint64_t base, std::vector<unsigned char>& memory, const char* what) {
      if (at - base > memory.size() || bytes > memory.size() - (at - base))
        throw Fault(std::string("outside of ") + what + " memory, at " + std::to_string(at - base));
      return memory.data() + (at - base);
    };
    const bool generic = in.space == Space::kGeneric;
    if (in.space == Space::kShared || (generic && at >= kSharedBase && at < kLocalBase))
      return inside(kSharedBase, shared_, "shared");
    if (in.space == Space::kLocal || (generic && at >= kLocalBase))
      return inside(kLocalBase, t.local, "local");
    if (at < begin_ || at + bytes > end_ || at + bytes < at) {
      data_ = memory_.find(at, &begin_, &end_);
      if (data_ == nullptr || at + bytes > end_) {
        begin_ = end_ = 0;
        throw Fault(std::string(write ? "a store" : "a load") + " outside of any allocation, at " +
                    std::to_string(at));
      }
    }
    return data_ + (at - begin_);
  }

  void load(Thread& t, const Instruction& in) {
    const auto width = static_cast<uint64_t>(bytes_of(in.type));
    const unsigned char* from;
    if (in.space == Space::kParam) {
      const uint64_t at = t.r[in.src[0]] + static_cast<uint64_t>(in.offset);
      if (at + width * in.width > k_.parameter_bytes) throw Fault("outside of the parameters");
      from = grid_.parameters + at;
    } else {
      from = place(t, in, width * in.width, false);
    }
    for (uint8_t i = 0; i < in.width; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, from + i * width, width);
      if (in.dst[i] == kNoSlot) continue;
      if (in.type == Type::kS8) value = static_cast<uint64_t>(static_cast<int8_t>(value));
      if (in.type == Type::kS16) value = static_cast<uint64_t>(static_cast<int16_t>(value));
      if (in.type == Type::kS32) value = static_cast<uint64_t>(static_cast<int32_t>(value));
      t.r[in.dst[i]] = value;
    }
  }

  void store(Thread& t, const Instruction& in) {
    const auto width = static_cast<uint64_t>(bytes_of(in.type));
    unsigned char* const to = place(t, in, width * in.width, true);
    for (uint8_t i = 0; i < in.width; ++i) std::memcpy(to + i * width, &t.r[in.src[1 + i]], width);
  }

  void set_predicate(Thread& t, const Instruction& in, uint64_t a, uint64_t b, uint64_t c) {
    bool p = compare(in, a, b), q = !p;
    if (in.flags & kWithAnd) p = p && (c & 1), q = q && (c & 1);
    if (in.flags & kWithOr) p = p || (c & 1), q = q || (c & 1);
    if (in.flags & kWithXor) p = p != ((c & 1) != 0), q = q != ((c & 1) != 0);
    t.r[in.dst[0]] = p;
    if (in.dst[1] != kNoSlot) t.r[in.dst[1]] = q;
  }

  void pack(Thread& t, const Instruction& in) {
    const int part = 8 * bytes_of(in.type) / in.width;
    const uint64_t mask = ~uint64_t{0} >> (64 - part);
    if (in.op == Op::kPack) {
      uint64_t value = 0;
      for (uint8_t i = 0; i < in.width; ++i) value |= (t.r[in.src[i]] & mask) << (part * i);
      t.r[in.dst[0]] = value;
      return;
    }
    const uint64_t value = t.r[in.src[0]];
    for (uint8_t i = 0; i < in.width; ++i) {
      if (in.dst[i] != kNoSlot) t.r[in.dst[i]] = value >> (part * i) & mask;
    }
  }

  uint64_t value(const Instruction& in, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (in.type == Type::kF32 && in.op != Op::kMov && in.op != Op::kSelp && in.op != Op::kCvt)
      return float_arithmetic(in.op == Op::kMad ? Op::kFma : in.op, f32(a), f32(b), f32(c));
    if (in.type == Type::kF64 && in.op != Op::kMov && in.op != Op::kSelp && in.op != Op::kCvt)
      return float_arithmetic(in.op == Op::kMad ? Op::kFma : in.op, f64(a), f64(b), f64(c));
    const auto width = static_cast<uint32_t>(8 * bytes_of(in.type));
    const uint64_t mask = in.type == Type::kPred ? 1 : ~uint64_t{0} >> (64 - width);
    switch (in.op) {
      case Op::kMov:
        return a;
      case Op::kSelp:
        return c & 1 ? a : b;
      case Op::kCvt:
        return convert(in, a);
      case Op::kAnd:
        return a & b & mask;
      case Op::kOr:
        return (a | b) & mask;
      case Op::kXor:
        return (a ^ b) & mask;
      case Op::kNot:
        return ~a & mask;
      case Op::kMul:
        return multiply(in, a, b);
      case Op::kMad: {
        const uint64_t sum = multiply(in, a, b) + c;
        const uint32_t bits = in.mode == kWide ? 2 * width : width;
        return bits == 64 ? sum : sum & (~uint64_t{0} >> (64 - bits));
      }
      case Op::kShl:
      case Op::kShr:
        return shift(in, a, b);
      case Op::kPopc:
        return static_cast<uint64_t>(std::popcount(a & mask));
      case Op::kClz:
        return static_cast<uint64_t>(std::countl_zero(a & mask)) - (64 - width);
      case Op::kBrev: {
        uint64_t out = 0;
        for (uint32_t i = 0; i < width; ++i) out |= (a >> i & 1) << (width - 1 - i);
        return out;
      }
      case Op::kPrmt:
        return permute(a, b, c);
      case Op::kShf:
        return funnel(in, a, b, c);
      case Op::kBfe:
        return extract(in.type, a, b, c);
      case Op::kBfi:
        return insert(in.type, a, b, c, d);
      default:
        return arithmetic(in, a, b);
    }
  }

  // Runs until the thread ends or waits.
  void step(Thread& t) {
    for (uint64_t steps = 0;; ++steps) {
      const Instruction& in = k_.code[t.pc++];
      if (in.guard != kNoSlot && ((t.r[in.guard] & 1) != 0) == in.unless) continue;
      constexpr uint64_t kMost = uint64_t{1} << 34;
      if (steps > kMost) throw Fault("it does not end");
      switch (in.op) {
        case Op::kRet:
          t.state = State::kDone;
          return;
        case Op::kBarrier:
          t.state = State::kAtBarrier;
          return;
        case Op::kShfl:
          t.state = State::kAtShuffle;
          return;
        case Op::kTrap:
          throw Fault("a trap");
        case Op::kBra:
          t.pc = in.target;
          break;
        case Op::kLd:
          load(t, in);
          break;
        case Op::kSt:
          store(t, in);
          break;
        case Op::kPack:
        case Op::kUnpack:
          pack(t, in);
          break;
        default: {
          const auto operand = [&](int i) { return in.src[i] == kNoSlot ? 0 : t.r[in.src[i]]; };
          const uint64_t a = operand(0), b = operand(1), c = operand(2), d = operand(3);
          if (in.op == Op::kSetp)
            set_predicate(t, in, a, b, c);
          else
            t.r[in.dst[0]] = value(in, a, b, c, d);
        }
      }
    }
  }

  const Grid& grid_;
  const Kernel& k_;
  Memory& memory_;
  std::vector<Thread> threads_;
  std::vector<unsigned char> shared_;
  uint32_t block_ = 0, now_ = 0;
  // The allocation that was accessed last.
  uint64_t begin_ = 0, end_ = 0;
  unsigned char* data_ = nullptr;
};

}  // namespace

bool run(const Grid& grid, Memory& memory, std::string* why) {
  Block block(grid, memory);
  try {
    for (uint32_t b = 0; b < grid.blocks; ++b) block.run(b);
    return true;
  } catch (const Fault& fault) {
    *why = block.where() + fault.what();
    return false;
  }
}

}  // namespace fake_cuda
