// How a kernel runs: a plain struct that can be printed and is the key of tuning. One function per
// shape chooses it from the kernel and the target. No later stage makes decisions.
#ifndef TENON_KERNELGEN_SCHEDULE_SCHEDULE_H_
#define TENON_KERNELGEN_SCHEDULE_SCHEDULE_H_

#include <string>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

enum class Shape : uint8_t {
  kPointwise,
  kRowReduction,
  kColumnReduction,
  kTranspose,
  kContraction,
  kConvolution,
  kOrdered,
  kAttention
};
std::string_view name_of(Shape shape);

struct Schedule {
  Shape shape = Shape::kPointwise;
  // Lanes run along `vector_axis`, a lead axis (each lane is a row) or the axis of a scan. ~0u:
  // along the innermost axis of each stage.
  uint32_t vector_axis = ~0u;
  uint32_t lanes = 1;
  // Vectors per step: independent accumulators of a reduction, or columns of a column block.
  uint32_t unroll = 1;
  int64_t block = 0;  // elements of the vector axis in one range item; 0: all
  int64_t grain = 1;  // range items that are worth another thread
  // Contraction.
  std::vector<uint32_t> rows, columns;  // axes of the register tile; other space axes are outer
  bool swapped = false;                 // a runs along columns
  uint32_t mr = 0, nr = 0;              // in rows, and in vectors of columns
  int64_t row_block = 0;                // rows per range item; B is packed once for them
  bool pack_a = false, pack_b = false, transpose_b = false;
  bool gather_a = false;  // rows of a lie across memory: a block of rows and steps is copied
  int64_t sum_block = 0;  // steps that a block of rows and its panels run at once; 0: all
  bool packed = false;    // b was packed in panels at load (pack.h)
  uint32_t few_bits = 0;  // 4 or 8: weights in panels are integers with scales
  bool widened = false;   // weights in panels are bf16, which the tile widens
  uint32_t digits = 0;  // rows of floats become digits in blocks of this many steps; 0: they do not
  uint32_t steps = 1;   // of the sum per lane: 2 of bf16 or i16, 4 of bytes
  // Panels per range item. Convolution: of weights, 0: all; mr, nr, rows, columns and row_block are
  // as above.
  int64_t panels = 1;
  bool depthwise = false;  // lanes run along channels, which do not interact
  // Depthwise: one step along the last axis of rows reads the input as run_step points along this
  // axis of the filter do. Strips are then within one line of the image and load the inputs that
  // their rows share only once. ~0u: not used.
  uint32_t run_axis = ~0u;
  int64_t run_step = 0;
  // Attention: vectors in a panel of columns of values; mr is in queries, nr that of keys. With
  // lanes along queries (vector_axis), columns in a tile; mr is in keys, nr that of queries.
  uint32_t value_nr = 0;
  // Work items per group, and whether a group works together on one item of the range. The
  // group of a contraction computes (group / group_columns) * mr rows by group_columns * nr
  // columns, `depth` steps of the sum at a time in shared memory.
  uint32_t group = 0, group_columns = 0, depth = 0;
  bool together = false;
  // Items that exchange values without memory; divides the group. 0: none do.
  uint32_t warp = 0;
  // Neighbours that a work item computes, so that it loads and stores at once what is contiguous in
  // them: along `vector_axis`, or in groups along the innermost axis of each pass. 1: each alone.
  uint32_t wide = 1;
  // Column reduction: the states of a block of columns are in scratch, and rows are read whole, in
  // the order of memory.
  bool lines = false;
  // Transpose: loads that are contiguous along this axis are transposed in a square tile.
  uint32_t tile_axis = ~0u;
  // Pointwise: this short axis is innermost in the result, directly inside the vector axis.
  uint32_t interleaved_axis = ~0u;
  // Whole vectors of results are stored past the caches if all results together take at least this
  // many bytes; 0: never.
  int64_t nontemporal = 0;
};

std::string to_text(const Schedule& schedule);

// Whether a guard that holds at two points of an axis holds at all points between them. True for a
// conjunction of bounds that are linear in the axis and do not depend on data. A remainder is not
// linear.
bool holds_between(Pool& pool, ExprId guard, uint32_t axis);

// Chooses the schedule of a kernel that prepare() made (a schedule names its axes). False: no shape
// fits, and `*why` says what prevents it.
bool schedule_kernel(Kernel& kernel, const Target& target, Schedule* out, std::string* why);

// What a scan with one state applies to it at each point, by an operation that may be reordered;
// kNone for other scans.
ExprId scanned_value(const Pool& pool, const Stage& scan);

// The single shapes, also for tuning and tests.
bool schedule_pointwise(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_reduction(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_contraction(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_convolution(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_attention(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_ordered(Kernel& kernel, const Target& target, Schedule* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
