// A stage program run without its values: who stores which element, and who reads it when. Internal
// to kernelgen.
//
// The trace visits every point that the accesses in question depend on and keeps, for each element
// of memory, whose value lies there and which row (point of the lead axes) put it there. It is
// exact for the sizes it is given, so it is for programs that are small or that are made small:
// verify_memory.h decides which.
#ifndef TENON_KERNELGEN_VERIFY_MEMORY_TRACE_H_
#define TENON_KERNELGEN_VERIFY_MEMORY_TRACE_H_

#include <optional>
#include <span>
#include <string>

#include "tenon/kernelgen/schedule/prepare.h"

namespace tenon::kernelgen {

// kUndecided: too much to visit, or the sizes do not fit each other.
enum class Traced : uint8_t { kRight, kWrong, kUndecided };

// What the sizes of a trace are. kReal: the kernel's own. kSymbolic: within what is known of each,
// but relations between them are not, so that an access beyond a buffer's end proves nothing and is
// passed over. kUnrelated: numbers in place of sizes that had relations (products that were one
// dim), so that also an element stored twice, or never, proves nothing.
enum class Sizes : uint8_t { kReal, kSymbolic, kUnrelated };

struct TraceOptions {
  std::vector<int64_t> sizes;  // one per extent of the kernel
  int64_t most_steps = 0;      // points times accesses that may be visited
  Sizes kind = Sizes::kReal;
  std::vector<bool>
      shared;  // by buffer: others write the rest of it, before or after; empty: none is
};

// A program (no lead axes) or a kernel: stages in order, inside each row. `*why` names the stage
// and the fact.
Traced trace_kernel(const Kernel& kernel, const TraceOptions& options, std::string* why);

// The loops that will be made of it: passes in order inside each row, the stages of a pass point by
// point (`by_stage`: each stage over all points before the next, and points backwards, as unrolled
// and vectorised loops may do in part).
Traced trace_prepared(const Prepared& prepared, const TraceOptions& options, bool by_stage,
                      std::string* why);

}  // namespace tenon::kernelgen
#endif
