// Stage IR to stage IR: what depends on constants only is computed once, when the program is
// loaded.
//
// A stage is fixed when every element it reads is a constant's, or was written by a fixed stage,
// and every size in it is known. What a fixed stage computes for a run becomes a persistent buffer
// (Role::kPersistent) where that pays: numbers that were scaled, converted or summed, and tensors
// that were turned over; never what is only broadcast, and never a table of which a run gathers a
// few rows. device_program.h makes load steps of the stages that write them.
#ifndef TENON_KERNELGEN_FUSE_LOAD_TIME_H_
#define TENON_KERNELGEN_FUSE_LOAD_TIME_H_

#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {

// By stage: fixed, in the sense above. Stages that load nothing are not.
std::vector<bool> fixed_stages(const Kernel& program);

// True if `e` loads, and loads only constants and persistent buffers, at places that no run
// changes: every axis below has a known extent.
bool is_fixed(const Kernel& program, ExprId e);

// lay_out() (fuse.h), and fixed work moves to load. Before split(). The verifier (may be null) as
// there.
void move_to_load(Kernel& program, const Target& target, Verifier* verifier = nullptr);

// Its parts around lay_out(), for who looks at the program between them: before maps are inlined,
// what is worth keeping although it could be; afterwards, what is left.
void keep_what_pays(Kernel& program);
void keep_the_rest(Kernel& program);

}  // namespace tenon::kernelgen
#endif
