// Level 1 of kernelgen: what a kernel means, without saying how it runs.
//
// A Kernel is a list of stages over axes; every element a stage reads or writes is named by index
// expressions in a hash-consed pool. Stages pass values through buffers only, so fusion is a
// rewrite of loads. Extents may be symbolic: then the kernel takes them as 64-bit arguments
// `ext[]`. Schedules (schedule.h) say how a kernel runs, the loop tree (loop_ir.h) is what printers
// walk.
//
// Threads: one Kernel, one thread at a time; different kernels are independent. Errors: functions
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
  kConst,   // bits: the integer, or the pattern of the double that is then rounded to `type`
  kExtent,  // ref: ordinal in ext[]; i64, never negative
  kAxis,    // ref: axis id; i64, 0 <= axis < its extent
  kOp,      // op: TENON_S_* or one of the index opcodes below; ref: TENON_CMP_* of a CMP
  kLoad,    // ref: buffer id; args: guard, other, index...
  kState,   // ref: ordinal of a Reduce's or Contract's state; in `merge`, n.. name the second tuple
};

// Index arithmetic beyond scalar programs: both on i64 with a positive divisor, rounding down.
inline constexpr uint16_t kFloorDiv = 240;
inline constexpr uint16_t kMod = 241;
// CONVERT that an op's result rounding caused and no user asked for. It disappears between fused
// ops.
inline constexpr uint16_t kRound = 242;

struct Expr {
  X kind = X::kConst;
  DType type = TENON_DTYPE_NONE;
  uint16_t op = 0;
  uint32_t ref = 0;
  uint32_t args_begin = 0, args_count = 0;
  int64_t bits = 0;
};

// Closed interval of an integer expression; saturates at the int64 limits.
struct Interval {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};

struct Axis {
  ExprId extent = kNone;
};

// One symbolic size. hint and multiple_of are for speed only.
struct Extent {
  int64_t lo = 0, hi = INT64_MAX;
  int64_t multiple_of = 1;
  int64_t hint = 0;  // a likely value; 0: unknown
};

bool is_float(DType t);
bool is_integer(DType t);  // not pred
bool is_signed(DType t);
uint32_t size_of(DType t);  // bytes; 0 for types kernelgen does not store (sub-byte, f8, complex)
std::string_view name_of(DType t);
std::string_view name_of_op(uint16_t op);

// Expressions, axes and extents of one kernel. Every make function folds constants and simplifies
// index arithmetic, so that structurally equal index expressions usually meet in one ExprId.
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
  // Result type: CMP and IS_NAN give pred, SELECT its second argument's, everything else the first
  // argument's.
  ExprId op(uint16_t code, std::span<const ExprId> args, uint32_t ref = 0);
  ExprId op(uint16_t code, std::initializer_list<ExprId> args, uint32_t ref = 0) {
    return op(code, std::span<const ExprId>(args.begin(), args.size()), ref);
  }
  ExprId convert(ExprId x, DType to, uint16_t code = TENON_S_CONVERT);
  ExprId bitcast(ExprId x, DType to);  // same width
  ExprId raw_index_op(uint16_t code, ExprId a,
                      ExprId b);  // i64, as it stands: for the simplifier itself
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
  double number_value(ExprId e) const;           // of a Const, whatever its type
  std::optional<int64_t> value(ExprId e) const;  // of an integer Const

  Interval range(ExprId e) const;
  // A product on i64 that index arithmetic does not look into, since multiplied out it would be too
  // long.
  bool is_atom(ExprId product) const { return atoms_.contains(product); }
  // Arithmetic on sizes and positions of a tensor whose extents are not all known: it fits 64 bits
  // as memory does.
  bool is_symbolic_index(ExprId e) const;
  // Arithmetic on extents and constants alone.
  bool is_size(ExprId e) const;
  // True if the expression mentions the axis.
  bool uses_axis(ExprId e, uint32_t axis) const;
  // x = sum(coefficient * axis) + rest for the listed axes, with coefficients free of them; false
  // if x is not so.
  bool affine(ExprId x, std::span<const uint32_t> axes, std::vector<ExprId>* coefficients,
              ExprId* rest);
  // Replaces expressions bottom-up. `guard` (may be kNone) is added to every load inside.
  ExprId substitute(ExprId e, const std::unordered_map<ExprId, ExprId>& map, ExprId guard = kNone);
  // Calls f(load) once for every distinct load under e.
  void loads(ExprId e, std::vector<ExprId>* out) const;
  // For walks that visit shared expressions once: begin_walk, then true for the first visit of
  // each. One walk at a time.
  void begin_walk() const;
  bool first_visit(ExprId e) const;
  // Value with the given extents; division by 0 gives 0. For sizes: no loads, no axes.
  int64_t evaluate(ExprId e, std::span<const int64_t> ext) const;

  std::span<const Axis> axes() const { return axes_; }
  std::span<const Extent> extents() const { return extents_; }
  uint32_t size() const { return static_cast<uint32_t>(exprs_.size()); }
  // Linear in what is under e: of a large expression what is shared is named first ("t0 = b0[i0] +
  // 1; t0*t0").
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
  mutable std::vector<uint32_t> visited_;                // by expression: the walk that saw it last
  mutable uint32_t walk_ = 0;
};

// Where an element is. guard false: a store is skipped (a load gives its `other`).
struct View {
  uint32_t buffer = 0;
  std::vector<ExprId> index;
  ExprId guard = kNone;
};

// A persistent buffer is written once, when the program is loaded, from constants and other
// persistent buffers; every run reads it. No stage is inlined through one and none joins the kernel
// of the stage that writes one.
enum class Role : uint8_t { kIn, kOut, kTemp, kConstant, kPersistent };

// Element (i...) lives at offset + sum(i * stride), in elements. Offset and strides let concat and
// slice work in place. Temp buffers that stay inside one kernel need no memory of the caller.
struct Buffer {
  DType type = TENON_DTYPE_NONE;
  std::vector<ExprId> dims, strides;
  ExprId offset = kNone;  // kNone: 0
  Role role = Role::kIn;
  int32_t alias_of =
      -1;              // another buffer whose memory this one may use (same element count and type)
  uint32_t panel = 0;  // columns of a panel: a contraction's packed operand (pack.h); 0: none
  bool keep = false;   // a temp that is written as it is: no reader gets its value instead
};

enum class StageKind : uint8_t { kMap, kReduce, kContract, kScan, kScatter, kSort, kAttention };

// Map:      store[i] = value[i] for every point of `space`.
// Reduce:   a tuple of states starts as init, takes step for every point of `reduce`, partial
// tuples meet by merge;
//           store[i] = final[i] (over State). The order of the points is free.
// Contract: State 0 = sum over `reduce` of a * b in the type of a and b; store[0] = final[0].
// The other kinds are kernels of their own, and all but the last run in order along some axes:
// Scan:     states start as init and take step for every point of `reduce` (one axis), in order; at
// every point
//           store[i] = final[i], over the States before the step and then those after it.
// Scatter:  store[0] = init[0] for every point of space and `fill`. Then for every point of
// `reduce`, in order, and of
//           space, the element at store[1] of the same buffer becomes step[0], over State 0: what
//           it was.
// Sort:     the points of `reduce` (one axis) are put in order by the keys `step` (u32 or u64): the
// first that differ
//           decide, equal ones keep their order. For point j of `fill` (one axis, not longer)
//           store[i] = value[i] with the reduce axis at the j-th of them.
// Attention: in f32. `reduce` is one axis (keys), `fill` one (features), the last two of space are
// queries and columns.
//           A score is step[0] over State 0, the sum over fill of a * b; State 0 of final is the
//           sum over reduce of value[0] weighted with exp(score - largest score), divided by the
//           sum of these weights. store[0] = final[0].
struct Stage {
  StageKind kind = StageKind::kMap;
  bool ordered() const { return kind >= StageKind::kScan; }
  std::vector<uint32_t> space, reduce;  // axis ids
  std::vector<uint32_t> fill;           // Scatter, Sort
  std::vector<ExprId> value;
  std::vector<ExprId> init, step, merge, final;
  ExprId a = kNone, b = kNone;
  std::vector<View> store;
  bool overlay = false;  // Map: replaces elements that earlier stages wrote
  bool relabels =
      false;  // Map as built: its elements are its operand's, in the same order, under other dims
  // Contract, when it is a convolution: which dim of b and which of the result holds the channels.
  int32_t x_channel = -1, out_channel = -1;
  // Contract: layout.h laid its operands out for register tiles. a lies in panels of this many
  // columns; b is walked by rows that may be guarded, contiguous along one reduction axis. 0: not
  // so.
  uint32_t panel = 0;
  std::vector<uint32_t>
      origins;  // the caller's ids of the operations this came from; fusion concatenates them
};

// A program before fusion (fuse.h splits it) and one kernel after it are the same thing.
struct Kernel {
  Pool pool;
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
  // After fusion: axes that all stages share and that ranges may cut, outermost first.
  std::vector<uint32_t> lead;
  // Ordinals in the program this kernel was cut from; empty before fusion. Temps inside the kernel
  // have ~0u.
  std::vector<uint32_t> buffer_origin, extent_origin;
  // Program buffers of which this kernel writes elements that no other kernel writes, while others
  // write the rest.
  std::vector<uint32_t> parts;
};

// The buffer whose memory this one lies in: an output's for a temp that shares it, else its own.
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
// the fact.
bool verify(const Kernel& kernel, std::string* why);

// Structural hash that does not depend on the numbering of axes, buffers or expressions, nor on
// origins: the same kernel met in another layer or another model hashes equal. 128 bits.
struct Hash128 {
  uint64_t lo = 0, hi = 0;
  bool operator==(const Hash128&) const = default;
};
Hash128 structural_hash(const Kernel& kernel);
// Also the correspondence: kernels of equal hash are the same kernel when buffer_order[i] of one
// stands for buffer_order[i] of the other, extents likewise. Buffers and extents that no stage
// mentions are left out.
Hash128 structural_hash(const Kernel& kernel, std::vector<uint32_t>* buffer_order,
                        std::vector<uint32_t>* extent_order);

// A size as data that outlives its pool: artifacts keep it. evaluate() needs the kernel's ext[] in
// order.
struct SizeProgram {
  std::vector<int64_t> words;
  int64_t evaluate(std::span<const int64_t> ext) const;
  // The extent of that ordinal, as it is.
  static SizeProgram extent(uint32_t ordinal);
  // One more than the largest ordinal it mentions; 0: it mentions none. Beyond 32 bits: the words
  // are damaged.
  uint64_t extent_limit() const;
  // The same size over what these programs are over, which stand for the extents.
  SizeProgram over(std::span<const SizeProgram> extents) const;
};
SizeProgram size_program(const Pool& pool, ExprId e);

}  // namespace tenon::kernelgen
#endif
