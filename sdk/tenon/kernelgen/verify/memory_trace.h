// Runs a stage program without its values: which stage stores each element, and which stages read
// it when. Internal to kernelgen.
//
// The trace visits every point that the accesses in question depend on. For each element of memory
// it keeps whose value is there and which row (point of the lead axes) stored it. A trace is exact
// for its sizes, so it suits programs that are small or can be made small: verify_memory.h decides
// which.
#ifndef TENON_KERNELGEN_VERIFY_MEMORY_TRACE_H_
#define TENON_KERNELGEN_VERIFY_MEMORY_TRACE_H_

#include <optional>
#include <span>
#include <string>

#include "tenon/kernelgen/schedule/prepare.h"

namespace tenon::kernelgen {

// kUndecided: too many points to visit, or the sizes do not fit each other.
enum class Traced : uint8_t { kRight, kWrong, kUndecided };

// Where the sizes of a trace come from. kReal: they are the kernel's own. kSymbolic: each is
// possible by itself, but relations between them may not hold, so an access beyond the end of a
// buffer proves nothing and is ignored. kUnrelated: they replace sizes that were related (products
// that were one dim), so an element stored twice, or never, also proves nothing.
enum class Sizes : uint8_t { kReal, kSymbolic, kUnrelated };

struct TraceOptions {
  std::vector<int64_t> sizes;  // one per extent of the kernel
  int64_t most_steps = 0;      // limit on points times accesses
  Sizes kind = Sizes::kReal;
  // By buffer: other kernels write the rest of it, before or after; empty: no buffer is shared.
  std::vector<bool> shared;
};

// Traces a program (no lead axes) or a kernel: stages in order within each row. `*why` names the
// stage and the fault.
Traced trace_kernel(const Kernel& kernel, const TraceOptions& options, std::string* why);

// Traces the loops that the kernel will become: passes in order within each row, and the stages of
// a pass point by point. `by_stage`: each stage over all points before the next, and points
// backwards, as unrolled and vectorised loops partly do.
Traced trace_prepared(const Prepared& prepared, const TraceOptions& options, bool by_stage,
                      std::string* why);

}  // namespace tenon::kernelgen
#endif
