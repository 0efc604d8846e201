// From stage IR to stage IR: computes what depends only on constants once, when the program is
// loaded.
//
// A stage is fixed if every element it reads belongs to a constant or was written by a fixed stage,
// and all its sizes are known. The result of a fixed stage becomes a persistent buffer
// (Role::kPersistent) where that pays: for numbers that were scaled, converted or summed, and for
// tensors that were transposed. It does not pay for what is only broadcast, or for a table of which
// a run gathers a few rows. device_program.h turns the stages that write persistent buffers into
// load steps.
#ifndef TENON_KERNELGEN_FUSE_LOAD_TIME_H_
#define TENON_KERNELGEN_FUSE_LOAD_TIME_H_

#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {

// By stage: whether it is fixed, as defined above. Stages without loads are not.
std::vector<bool> fixed_stages(const Kernel& program);

// True if `e` has loads, and all of them read constants or persistent buffers at places that do not
// change between runs: every axis in `e` has a known extent.
bool is_fixed(const Kernel& program, ExprId e);

// lay_out() (fuse.h), and moves fixed work to load. Call before split(). The verifier (may be null)
// works as in fuse.h.
void move_to_load(Kernel& program, const Target& target, Verifier* verifier = nullptr);

// The steps before and after lay_out(), for callers that inspect the program between them.
// keep_what_pays runs before maps are inlined and keeps results that pay but could be inlined;
// keep_the_rest runs afterwards.
void keep_what_pays(Kernel& program);
void keep_the_rest(Kernel& program);

}  // namespace tenon::kernelgen
#endif
