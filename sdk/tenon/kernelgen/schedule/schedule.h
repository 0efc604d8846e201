// How a kernel runs: a plain struct, printable, the key of tuning. One function per shape chooses
// it from the kernel and the target; nothing later decides anything.
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
  // Lanes run along `vector_axis`: a lead axis (each lane its own row), or ~0u: the innermost axis
  // of each stage.
  uint32_t vector_axis = ~0u;
  uint32_t lanes = 1;
  uint32_t unroll =
      1;  // vectors per step: independent accumulators of a reduction, columns of a column block
  int64_t block = 0;  // elements of the vector axis in one range item; 0: all
  int64_t grain = 1;  // range items that are worth handing to another thread
  // Contraction.
  std::vector<uint32_t> rows, columns;  // axes of the register tile; the other space axes are outer
  bool swapped = false;                 // a runs along columns
  uint32_t mr = 0, nr = 0;              // rows, and columns in vectors
  int64_t row_block = 0;                // rows per range item; B is packed once for them
  bool pack_a = false, pack_b = false, transpose_b = false;
  bool packed = false;  // b lies in panels since load (pack.h)
  bool pairs = false;   // of bf16, two steps of the sum to a lane
  // Convolution: mr, nr, rows, columns and row_block as above; panels of weights in one range item,
  // 0: all.
  int64_t panels = 0;
  bool depthwise = false;  // lanes run along channels that do not meet
  // Depthwise: this axis of the filter moves over the input as the last axis of rows does, run_step
  // points a row. Strips then lie in one line of the image and load what their rows share once.
  // ~0u: not so.
  uint32_t run_axis = ~0u;
  int64_t run_step = 0;
  // OpenCL: work items of a group, and whether it works on one item of the range together. A
  // contraction's group computes (group / group_columns) * mr rows by group_columns * nr columns,
  // `depth` steps of the sum at a time in shared memory.
  uint32_t group = 0, group_columns = 0, depth = 0;
  bool together = false;
  // Transpose: loads that are contiguous along this axis go through a square tile.
  uint32_t tile_axis = ~0u;
  // Pointwise: the few points of this axis lie side by side in the result, those of the vector axis
  // behind them.
  uint32_t interleaved_axis = ~0u;
  // Whole vectors of results are stored past the caches when all results take at least so many
  // bytes; 0: never.
  int64_t nontemporal = 0;
};

std::string to_text(const Schedule& schedule);

// Whether a guard that holds at two points of an axis holds at all points between them: bounds that
// are linear in it, all of which have to be met, and no data. A remainder is not linear.
bool holds_between(Pool& pool, ExprId guard, uint32_t axis);

// Chooses for a kernel as prepare() gives it (its axes are what a schedule names). False: no shape
// fits, `*why` says what stands in the way.
bool schedule_kernel(Kernel& kernel, const Target& target, Schedule* out, std::string* why);

// The shapes, also for tuning and tests.
bool schedule_pointwise(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_reduction(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_contraction(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_convolution(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_attention(Kernel& kernel, const Target& target, Schedule* out, std::string* why);
bool schedule_ordered(Kernel& kernel, const Target& target, Schedule* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
