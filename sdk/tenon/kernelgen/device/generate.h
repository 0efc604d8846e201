// From kernels to text: schedules, lowers and prints. Plugins call it after partition().
#ifndef TENON_KERNELGEN_DEVICE_GENERATE_H_
#define TENON_KERNELGEN_DEVICE_GENERATE_H_

#include <span>
#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// How to call one kernel of a module.
//
// C++: void entry(void* const* buf, const int64_t* ext, int64_t begin, int64_t end, void* scratch).
// Any split of [0, range) into calls gives the same bits, in any order and on any threads. Each
// thread needs its own scratch_bytes of scratch, 64-byte aligned. Fewer than about `grain` items
// are not worth a thread.
//
// OpenCL and CUDA (which always has a group): a one-dimensional kernel. With a `group`
// (Target::group) it starts in groups of that many work items: one group per item of the range if
// they work `together`, else one work item per item of the range, rounded up to whole groups.
// Without a `group` it has one work item per item, in groups of any size. global_size() computes
// the size. Arguments: one __global pointer per buffer, one long per extent, and, if scratch_bytes
// is not 0, a last __global pointer to range * scratch_bytes.
struct Launch {
  std::string entry;
  std::vector<uint32_t> buffers;  // argument order; ordinals in Kernel::buffers
  std::vector<bool> written;      // per entry of `buffers`
  uint32_t extent_count = 0;      // ext[] in the order of the kernel's extents
  SizeProgram range, scratch_bytes;
  int64_t grain = 1;
  uint32_t group = 0;
  bool together = false;
};

// Work items of an OpenCL launch.
inline uint64_t global_size(uint64_t range, uint32_t group, bool together) {
  if (group == 0) return range;
  return together ? range * group : (range + group - 1) / group * group;
}

struct Module {
  std::string text;
  std::vector<Launch> launches;  // one per kernel, same order
};

// Prints all kernels into one text. Entries are named `k_<hash>`, so equal kernels of different
// programs have the same name and text. Equal kernels are printed once. False: `*why` names the
// kernel that cannot be generated, and the reason.
//
// texts: null, or receives a text for each kernel that stands alone, with only what this kernel
// needs before it. It is the same in every program that has the kernel.
bool generate(std::span<Kernel> kernels, const Target& target, Module* out, std::string* why,
              std::vector<std::string>* texts = nullptr);

// Explains one kernel: stages, schedule and loops as text.
bool explain(Kernel& kernel, const Target& target, std::string* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
