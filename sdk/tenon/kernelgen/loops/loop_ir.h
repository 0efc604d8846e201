// The loop IR: the loop tree that a printer walks. It records every decision: the lanes of each
// value; whether a load is contiguous, strided or masked; where a partial result is kept. A printer
// only spells it.
#ifndef TENON_KERNELGEN_LOOPS_LOOP_IR_H_
#define TENON_KERNELGEN_LOOPS_LOOP_IR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/schedule/schedule.h"

namespace tenon::kernelgen {

// A value of the tree. Scalars have 1 lane. Assigned once unless declared by kVar.
using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~0u;

struct Value {
  DType type = TENON_DTYPE_NONE;
  uint32_t lanes = 1;
};

// The memory that an operand is in. kShared: shared by the work items of one group.
enum class Space : uint8_t { kBuffer, kScratch, kLocal, kShared };

// kLanes: the items of a group share the loop; item i runs begin + i * step, then `group` steps
// further on...
// kHalving: dst = args[0]; dst > 0; dst /= 2.
enum class Bind : uint8_t { kSerial, kRange, kVector, kLanes, kHalving };

enum class NodeKind : uint8_t {
  // for dst = args[0]; dst < args[1] (or dst + step <= args[1] if `full`); dst += step: body
  kLoop,
  kIf,     // args[0]: body, else `other`
  kConst,  // dst = bits as type
  kExt,    // dst = ext[ref]
  // dst = op(args); ref: CMP relation; bits 1: index arithmetic, never negative or overflowing.
  kOp,
  kSplat,  // dst = all lanes args[0]
  kIota,   // dst = args[0] + lane, i64 or i32
  // dst lane l = args[0] lane list[l] or, without a list, lane (l + ref) mod lanes
  kShuffle,
  kLane,  // dst = lane `ref` of args[0]
  kJoin,  // dst lane l = list[l]
  // dst = memory[args[0] ...] where the mask args[1] is set, else args[2]. 1 lane: scalar; lanes
  // are contiguous unless there is a `stride`.
  kLoad,
  kStore,  // memory[args[0] ...] = args[1]; mask args[2]
  kVar,    // declares mutable dst = args[0]
  kSet,    // dst = args[0], dst declared by kVar
  kLocal,  // declares the local array `ref` of `bits` elements of `type`
  // scratch[args[1] + l * args[2] + r] = memory[args[0] + r * stride + l] for r, l < bits
  kTranspose,
  kPrefetch,    // memory[args[0] ...], `bits` elements, is read soon
  kInterleave,  // memory[args[0] + l * n + i] = list[i] lane l, of n vectors
  // local `op` = sum over args[2] steps of rows x vectors. Row r of a is at memory[list[r] + step *
  // args[1]] of `space` and `ref`; b is at args[0] + step * stride in scratch, or in buffer
  // `b_buffer`. bits: vectors of type x lanes.
  kMma,
  // local `op`[r * bits + c] = sum over args[2] features of row r times key c, both contiguous. Row
  // r starts at memory[list[r]] of `space` and `ref`, key c at `b_buffer`[args[0] + c * stride].
  // There are args[1] keys, at most `bits`; what the other places get is unspecified. lanes: no
  // more than there are features.
  kDots,
  // The digits of args[2] floats at memory[args[0]] of `space` and `ref`, in blocks of `bits`, each
  // x = scale (d0 + 2^8 d1 + 2^16 d2 + 2^24 d3) with digits in [-128, 127]: to scratch
  // i32[args[1]], where four words hold the digits 0 to 3 of four numbers, and per block 8 facts to
  // scratch f32[args[3]]: the scale and the sums of the digits 0 to 3. A scale of -1 marks a block
  // that has no digits, because some would lose too much; they are 0.
  kDigits,
  kAddress,  // dst = the address of memory[args[0]] as i64
  // local `op` = sum over args[2] taps. The rows are at the addresses in scratch i64[args[0] + tap
  // * ref + row], the weights at `b_buffer`[args[3] + i64 scratch[args[1] + tap]]. full:
  // element-wise along list[0] columns; else sums of list[0] products with weights `stride` apart.
  // ref: rows; bits: vectors of type x lanes.
  kTaps,
  // In scratch: stable sort of `stride` keys of `type` at args[0], with their i64 payload at
  // args[1]. args[2] and args[3]: work space for as many keys and payloads.
  kSort,
  // dst = whether local `op` holds a NaN in the first args[0] columns of its `ref` rows, which are
  // `bits` apart.
  kAnyNan,
  kLaneId,  // dst = index of the work item in its group, i64
  // dst = args[0] of the work item that is `bits` further on in the same warp; unspecified after
  // the end of the warp. full: of the first item of the warp. ref: items of a warp. All items of
  // the group are here.
  kFromLane,
  // The items of a group meet. Then all see shared memory and, if bits is 1, global memory.
  kBarrier,
  // If args[0] says that there were stores past the caches, other threads see them from here on.
  kFence,
  kComment,  // text: the stage and part (Init, Step, Merge, Final, Map, Pack) that follows
};

struct Node {
  NodeKind kind = NodeKind::kComment;
  Bind bind = Bind::kSerial;
  ValueId dst = kNoValue;
  uint16_t op = 0;
  uint32_t ref = 0;
  Space space = Space::kBuffer;
  DType type = TENON_DTYPE_NONE;  // of memory
  ValueId args[4] = {kNoValue, kNoValue, kNoValue, kNoValue};
  ValueId stride = kNoValue;  // kLoad, kStore: elements between lanes, if not 1
  int64_t bits = 0;           // kConst: pattern; kLoop: step; kLocal: elements; kSort: the
                              // places wanted, 0: all
  bool full = false;
  // kLoop of work items: bodies that the compiler puts one after another; 0: as it likes.
  uint32_t unroll = 0;
  std::string text;
  std::vector<ValueId> list;  // kMma: where each row of a starts; kShuffle: lanes
  uint32_t lanes = 1;         // kMma
  int32_t b_buffer = -1;      // kMma: -1 is scratch
  bool stream = false;        // kStore of a whole vector: past the caches if args[3] says so
  // kTaps, element-wise: a tap is a run of `run` neighbours. The table has one address for each
  // place that the rows, run_step apart, read; the weights of a run are list[1] apart. 0: one
  // address per row.
  uint32_t run = 0, run_step = 0;
  // kTaps, element-wise: of the input; kMma: of b, if it is bf16 beside f32. Widened to `type`.
  DType read = TENON_DTYPE_NONE;
  // kMma: b has integers of this many bits (0: numbers of `type`), two steps of 4 to a byte, for
  // (b - zero) scale. Each args[3] steps have a row of scales, panels like those of b, from
  // scale_buffer[list_b[0]] on, and of zeros from zero_buffer[list_b[1]] on; zero_buffer -1: the
  // value list_b[1] is the zero of all; -2: none.
  uint32_t few_bits = 0;
  int32_t scale_buffer = -1, zero_buffer = -2;
  std::vector<ValueId> list_b;
  // kMma of few bits: b is in quads, a word of four bytes per lane; those of 4 bits have steps s
  // and s + 4 in one byte. Scales and zeros are then `stride` / 4 apart.
  bool quads = false;
  // kMma of few bits in quads: row r also has digits, made in blocks of so many steps, at scratch
  // i32[list_d[2 r]] with facts at f32[list_d[2 r + 1]]. 0: no digits.
  uint32_t digits = 0;
  std::vector<ValueId> list_d;
  uint32_t steps = 1;  // kMma, kTaps: of the sum in one lane and step, of narrower operands
  std::vector<Node> body, other;
};

struct LoopTree {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> body;  // inside: values named begin and end
  ValueId begin = kNoValue, end = kNoValue;
  uint32_t lanes = 1;
  struct Argument {
    uint32_t buffer;  // ordinal in the kernel
    DType type;
    bool written;
  };
  std::vector<Argument> buffers;  // in argument order; Node::ref of memory nodes indexes it
  uint32_t extent_count = 0;
  // Items of the range, and the bytes of scratch that one call of the kernel needs (OpenCL: that
  // one work item needs). grain: items that are worth a thread.
  SizeProgram range, scratch_bytes;
  int64_t grain = 1;
  // OpenCL. group: work items per group (0: the launcher chooses, and there are no barriers).
  // together: a group works on one item of the range; else each work item has its own. shared:
  // arrays in shared memory, by Node::ref.
  uint32_t group = 0;
  bool together = false;
  struct Shared {
    DType type;
    int64_t elements;
    bool wide =
        false;  // stored to several elements at once, so it begins at a multiple of 16 bytes
  };
  std::vector<Shared> shared;
};

std::string to_text(const LoopTree& tree);

struct Prepared;

// Lowers a prepared and scheduled kernel. False: `*why` says what cannot be lowered.
bool lower(Prepared& prepared, const Schedule& schedule, LoopTree* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
