// The stage IR: what a kernel computes, without saying how it runs.
//
// A Kernel is a list of stages over axes. Index expressions in a hash-consed pool name each element
// that a stage reads or writes. Stages pass values only through buffers, so fusion is a rewrite of
// loads. Extents may be symbolic; the kernel then takes them as 64-bit arguments `ext[]`. A
// Schedule (schedule.h) says how a kernel runs, and printers walk the loop tree (loop_ir.h).
//
// Threads: one thread at a time per Kernel; different kernels are independent. Errors: functions
// that can refuse return false (or nullopt) and put one sentence in `*why`.
#ifndef TENON_KERNELGEN_IR_IR_H_
#define TENON_KERNELGEN_IR_IR_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/abi/base.h"
#include "tenon/abi/scalar.h"

namespace tenon::kernelgen {

using DType = tenon_dtype_t;

// Index of an expression in its pool. Equal indices mean equal expressions. 0 is "none".
using ExprId = uint32_t;
inline constexpr ExprId kNone = 0;

enum class X : uint8_t {
  kConst,   // bits: the integer, or the pattern of a double that is then rounded to `type`
  kExtent,  // ref: ordinal in ext[]; i64, never negative
  kAxis,    // ref: axis id; i64, 0 <= axis < its extent
  kOp,      // op: TENON_S_* or one of the index opcodes below; ref: the TENON_CMP_* of a CMP
  kLoad,    // ref: buffer id; args: guard, other, index...
  // ref: ordinal of a state of a Reduce or Contract; in `merge`, ordinals from n on name the second
  // tuple
  kState,
};

// Index arithmetic that scalar programs lack. Both are on i64, with a positive divisor, and round
// down.
inline constexpr uint16_t kFloorDiv = 240;
inline constexpr uint16_t kMod = 241;
// A CONVERT that rounds the result of an op and that no user wrote. Fusing the ops removes it.
inline constexpr uint16_t kRound = 242;
// (x, a, b): x*a + x*b with one rounding of the sum; b is far less than a (fuse/quotients.h).
inline constexpr uint16_t kMulPair = 243;
// (x, y, z) of floats: x*y + z, with one rounding where the target does both at once. All else is
// rounded as it is written, so this is only where a definition asks for it and in sums of products.
inline constexpr uint16_t kMulAdd = 244;
// 2 to the power of an f32.
inline constexpr uint16_t kExp2 = 245;

struct Expr {
  X kind = X::kConst;
  DType type = TENON_DTYPE_NONE;
  uint16_t op = 0;
  uint32_t ref = 0;
  uint32_t args_begin = 0, args_count = 0;
  int64_t bits = 0;
};

// The closed interval of an integer expression. Saturates at the int64 limits.
struct Interval {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};

struct Axis {
  ExprId extent = kNone;
};

// One symbolic size. hint and multiple_of affect speed only.
struct Extent {
  int64_t lo = 0, hi = INT64_MAX;
  int64_t multiple_of = 1;
  int64_t hint = 0;  // a likely value; 0: unknown
};

bool is_float(DType t);
bool is_integer(DType t);  // not pred
bool is_signed(DType t);
uint32_t size_of(DType t);  // bytes; 0 for types kernelgen does not store (sub-byte, f8, complex)
// The type in which operands are stored of which a register tile takes `steps` (1, 2 or 4) products
// per lane and sums them in `acc`. weights: the operand in panels.
DType operand_type(DType acc, uint32_t steps, bool weights);
std::string_view name_of(DType t);
std::string_view name_of_op(uint16_t op);

// Expressions, axes and extents of one kernel. Every function that makes an expression folds
// constants and simplifies index arithmetic, so that equal index expressions usually get the same
// ExprId.
class Pool {
 public:
  Pool();

  ExprId integer(int64_t v, DType type = TENON_I64);
  ExprId number(double v, DType type);
  ExprId boolean(bool v) { return integer(v ? 1 : 0, TENON_PRED); }
  uint32_t add_extent(Extent info);
  ExprId extent(uint32_t ordinal);
  uint32_t add_axis(ExprId extent);
  ExprId axis(uint32_t id);
  ExprId state(uint32_t ordinal, DType type);
  // Result type: pred for CMP and IS_NAN, the type of the second argument for SELECT, else the type
  // of the first argument.
  ExprId op(uint16_t code, std::span<const ExprId> args, uint32_t ref = 0);
  ExprId op(uint16_t code, std::initializer_list<ExprId> args, uint32_t ref = 0) {
    return op(code, std::span<const ExprId>(args.begin(), args.size()), ref);
  }
  ExprId convert(ExprId x, DType to, uint16_t code = TENON_S_CONVERT);
  ExprId bitcast(ExprId x, DType to);  // same width
  // i64, not simplified: for the simplifier itself.
  ExprId raw_index_op(uint16_t code, ExprId a, ExprId b);
  ExprId load(uint32_t buffer, DType type, std::span<const ExprId> index, ExprId guard = kNone,
              ExprId other = kNone);

  // Index arithmetic on i64 and predicates over it.
  ExprId add(ExprId a, ExprId b) { return op(TENON_S_ADD, {a, b}); }
  ExprId sub(ExprId a, ExprId b) { return op(TENON_S_SUB, {a, b}); }
  ExprId mul(ExprId a, ExprId b) { return op(TENON_S_MUL, {a, b}); }
  ExprId floordiv(ExprId a, ExprId b) { return op(kFloorDiv, {a, b}); }
  ExprId ceildiv(ExprId a, int64_t b) { return floordiv(add(a, integer(b - 1)), integer(b)); }
  ExprId mod(ExprId a, ExprId b) { return op(kMod, {a, b}); }
  ExprId min(ExprId a, ExprId b) { return op(TENON_S_MIN, {a, b}); }
  ExprId max(ExprId a, ExprId b) { return op(TENON_S_MAX, {a, b}); }
  ExprId cmp(uint32_t relation, ExprId a, ExprId b) { return op(TENON_S_CMP, {a, b}, relation); }
  ExprId both(ExprId p, ExprId q);  // logical and of guards; kNone is true

  const Expr& at(ExprId e) const { return exprs_[e]; }
  std::span<const ExprId> args(ExprId e) const {
    return {args_.data() + at(e).args_begin, at(e).args_count};
  }
  ExprId arg(ExprId e, uint32_t i) const { return args_[at(e).args_begin + i]; }
  DType type(ExprId e) const { return at(e).type; }
  bool is_const(ExprId e) const { return e != kNone && at(e).kind == X::kConst; }
  bool is_const(ExprId e, int64_t v) const {
    return is_const(e) && !is_float(type(e)) && at(e).bits == v;
  }
  double number_value(ExprId e) const;           // of a kConst, whatever its type
  std::optional<int64_t> value(ExprId e) const;  // of an integer kConst

  Interval range(ExprId e) const;
  // A product on i64 that index arithmetic treats as opaque, because multiplying it out would make
  // it too long.
  bool is_atom(ExprId product) const { return atoms_.contains(product); }
  // Arithmetic on sizes and positions of a tensor whose extents are not all known. It fits 64 bits
  // because memory does.
  bool is_symbolic_index(ExprId e) const;
  // Arithmetic on extents and constants only.
  bool is_size(ExprId e) const;
  // True if the expression mentions the axis.
  bool uses_axis(ExprId e, uint32_t axis) const;
  // Writes x as sum(coefficient * axis) + rest over the listed axes, with coefficients that do not
  // mention those axes. False if x has no such form.
  bool affine(ExprId x, std::span<const uint32_t> axes, std::vector<ExprId>* coefficients,
              ExprId* rest);
  // Replaces expressions bottom-up. `guard` (may be kNone) is added to every load in the result.
  ExprId substitute(ExprId e, const std::unordered_map<ExprId, ExprId>& map, ExprId guard = kNone);
  // Appends every distinct load under e, once.
  void loads(ExprId e, std::vector<ExprId>* out) const;
  // For walks that visit shared expressions once: call begin_walk, then first_visit is true on the
  // first visit of each expression. One walk at a time.
  void begin_walk() const;
  bool first_visit(ExprId e) const;
  // The value for these extents; division by 0 gives 0. For sizes: no loads, no axes.
  int64_t evaluate(ExprId e, std::span<const int64_t> ext) const;
  // A likely value of a size, for decisions that affect only speed: extents have their hints, and
  // those without one what likely_size.hpp says. Every decision assumes the same.
  int64_t likely(ExprId size) const;
  // Whether likely() had to assume a size: nothing is known of it but its bounds.
  bool is_guess(ExprId size) const;

  std::span<const Axis> axes() const { return axes_; }
  std::span<const Extent> extents() const { return extents_; }
  uint32_t size() const { return static_cast<uint32_t>(exprs_.size()); }
  // Length is linear in the number of expressions under e: in a large expression, shared parts are
  // named first ("t0 = b0[i0] + 1; t0*t0").
  std::string text(ExprId e) const;

 private:
  ExprId intern(Expr e, std::span<const ExprId> args);
  ExprId substitute_known(ExprId e, std::unordered_map<ExprId, ExprId>* done, ExprId guard);
  ExprId substitute_args(ExprId e, std::unordered_map<ExprId, ExprId>* done, ExprId guard);
  void loads_unseen(ExprId e, std::vector<ExprId>* out) const;
  bool uses_axis_unseen(ExprId e, uint32_t axis) const;
  Interval bounded(ExprId e, __int128 lo, __int128 hi) const;
  Interval range_unseen(ExprId e) const;
  bool is_index_unseen(ExprId e, bool* symbolic) const;
  bool is_size_unseen(ExprId e) const;
  ExprId fold(uint16_t code, std::span<const ExprId> args, uint32_t ref);
  ExprId simplify(uint16_t code, std::span<const ExprId> args, uint32_t ref);
  ExprId simplify_float(uint16_t code, std::span<const ExprId> args);

  std::vector<Expr> exprs_;
  std::vector<ExprId> args_;
  std::unordered_multimap<uint64_t, ExprId> table_;
  std::vector<Axis> axes_;
  std::vector<Extent> extents_;
  std::unordered_set<ExprId> atoms_;
  mutable std::unordered_map<ExprId, Interval> ranges_;  // of operations
  mutable std::vector<uint32_t> visited_;  // by expression: the last walk that visited it
  mutable uint32_t walk_ = 0;
};

// The place of an element. Where guard is false a store is skipped, and a load gives its `other`.
struct View {
  uint32_t buffer = 0;
  std::vector<ExprId> index;
  ExprId guard = kNone;
};

// A persistent buffer is written once, when the program is loaded, from constants and other
// persistent buffers; every run reads it. Stages are not inlined through a persistent buffer, and a
// stage that writes one shares its kernel with no other stage.
enum class Role : uint8_t { kIn, kOut, kTemp, kConstant, kPersistent };

// Element (i...) is at offset + sum(i * stride), in elements. Offset and strides let concat and
// slice work in place. Temp buffers that stay inside one kernel need no memory from the caller.
struct Buffer {
  DType type = TENON_DTYPE_NONE;
  std::vector<ExprId> dims, strides;
  ExprId offset = kNone;  // kNone: 0
  Role role = Role::kIn;
  // Another buffer whose memory this one may use (same element count and type); -1: none.
  int32_t alias_of = -1;
  // Columns of a panel, for a packed operand of a contraction (pack.h); 0: not packed.
  uint32_t panel = 0;
  bool keep = false;  // a temp that must be stored: readers load it instead of inlining its value
};

enum class StageKind : uint8_t { kMap, kReduce, kContract, kScan, kScatter, kSort, kAttention };

// Map:        store[i] = value[i] for every point of `space`.
// Reduce:     A tuple of states starts as init and takes step for every point of `reduce`. Partial
//             tuples are combined by merge. store[i] = final[i] (over State). The order of the
//             points is free.
// Contract:   State 0 = sum over `reduce` of a * b in the type of a and b; store[0] = final[0].
// The other kinds are kernels of their own. All but Attention run in order along some axes:
// Scan:       States start as init and take step for every point of `reduce` (one axis), in order.
//             At every point store[i] = final[i], over the States before the step followed by those
//             after it.
// Scatter:    store[0] = init[0] for every point of space and `fill`. Then, for every point of
//             `reduce` in order, and every point of space, the element at store[1] of the same
//             buffer becomes step[0], where State 0 is its old value.
// Sort:       Orders the points of `reduce` (one axis) by the keys `step` (u32 or u64). The first
//             keys that differ decide; the sort is stable. For point j of `fill` (one axis, not
//             longer than reduce), store[i] = value[i] with the reduce axis at the j-th point in
//             this order.
// Attention:  In f32. `reduce` is one axis (keys), `fill` is one (features), and the last two axes
//             of space are queries and columns. A score is step[0] over State 0, the sum over fill
//             of a * b. State 0 of final is the sum over reduce of value[0] weighted with exp(score
//             - largest score), divided by the sum of these weights. store[0] = final[0]. A key
//             whose score is -inf because of its position may be left out, or have weight 0.
struct Stage {
  StageKind kind = StageKind::kMap;
  bool ordered() const { return kind >= StageKind::kScan; }
  std::vector<uint32_t> space, reduce;  // axis ids
  std::vector<uint32_t> fill;           // Scatter, Sort
  std::vector<ExprId> value;
  std::vector<ExprId> init, step, merge, final;
  ExprId a = kNone, b = kNone;
  std::vector<View> store;
  bool from_end = false;  // Scan: its axis runs from the last point to the first
  bool overlay = false;   // Map: replaces elements that earlier stages wrote
  // Map as built: its elements are those of its operand, in the same order, under other dims.
  bool relabels = false;
  // Contract that is a convolution: the dim of b, and the dim of the result, that hold the
  // channels.
  int32_t x_channel = -1, out_channel = -1;
  // Contract whose operands layout.h laid out for register tiles: a is in panels of this many
  // columns; b is read by rows, which may be guarded and are contiguous along one reduction axis.
  // 0: not laid out so.
  uint32_t panel = 0;
  // The caller's ids of the operations this stage came from; fusion concatenates them.
  std::vector<uint32_t> origins;
  // How this stage is computed and why, for dumps; empty: nothing was to be chosen.
  std::string note;
};

// Both a program before fusion (fuse.h splits it) and one kernel after fusion.
struct Kernel {
  Pool pool;
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
  // After fusion: axes that all stages share and that ranges may cut, outermost first.
  std::vector<uint32_t> lead;
  // Ordinals in the program that this kernel was cut from; empty before fusion. ~0u for temps
  // inside the kernel.
  std::vector<uint32_t> buffer_origin, extent_origin;
  // Program buffers that this kernel shares with other writers: each element has one writing
  // kernel.
  std::vector<uint32_t> parts;

  // to_text on stderr, for a debugger: `call kernel.dump()`. A plugin keeps it uncalled.
  void dump() const;
};

// The buffer that owns this one's memory: the output, for a temp that shares an output's memory;
// else the buffer itself.
inline uint32_t memory_of(const Kernel& kernel, uint32_t buffer) {
  const int32_t alias = kernel.buffers[buffer].alias_of;
  return alias >= 0 ? static_cast<uint32_t>(alias) : buffer;
}

inline bool contains(std::span<const uint32_t> list, uint32_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}
// Those of some axes that are no lead.
inline std::vector<uint32_t> inner_axes(const Kernel& kernel, const std::vector<uint32_t>& axes) {
  std::vector<uint32_t> out;
  for (uint32_t a : axes) {
    if (!contains(kernel.lead, a)) out.push_back(a);
  }
  return out;
}

// One line per axis, buffer and stage; stable, for text tests and explanations. In a large stage
// each shared expression has a line of its own ("t0 = ..."), so that the text is no longer than the
// kernel.
std::string to_text(const Kernel& kernel);

// Checks types, ranks, axis scopes, state use and single writers. False: `*why` names the stage and
// the fault.
bool verify(const Kernel& kernel, std::string* why);

// A structural hash of 128 bits. It does not depend on the numbering of axes, buffers or extents,
// nor on origins: the same kernel in another layer or another model has the same hash. The order of
// an operation's arguments counts, since it decides in which order the code takes its buffers.
struct Hash128 {
  uint64_t lo = 0, hi = 0;
  bool operator==(const Hash128&) const = default;
};
Hash128 structural_hash(const Kernel& kernel);
// Makes a hash depend on one more word.
void add_word(Hash128* hash, uint64_t word);
// Also gives the correspondence: in two kernels of equal hash, buffer_order[i] of one corresponds
// to buffer_order[i] of the other, and likewise for extents. Buffers and extents that no stage
// mentions are left out.
Hash128 structural_hash(const Kernel& kernel, std::vector<uint32_t>* buffer_order,
                        std::vector<uint32_t>* extent_order);

// A size as data that outlives its pool; artifacts store it. evaluate() takes the kernel's ext[] in
// order.
struct SizeProgram {
  std::vector<int64_t> words;
  int64_t evaluate(std::span<const int64_t> ext) const;
  // The extent with that ordinal.
  static SizeProgram extent(uint32_t ordinal);
  // One more than the largest ordinal mentioned; 0 if none is. A value beyond 32 bits means that
  // the words are damaged.
  uint64_t extent_limit() const;
  // This size with each extent replaced by the program in `extents` with its ordinal.
  SizeProgram over(std::span<const SizeProgram> extents) const;
};
SizeProgram size_program(const Pool& pool, ExprId e);

}  // namespace tenon::kernelgen
#endif
