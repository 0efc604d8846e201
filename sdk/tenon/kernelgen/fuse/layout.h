// Stage IR to stage IR: in which order the elements of temps lie, for the whole program.
//
// Index expressions are logical; what is contiguous is the matter of a Buffer's strides. Temps that
// convolutions write or read, and all that is connected to them element by element (activations,
// residual sums, pools, concats, resizes), become channels-last. What comes from or goes to the
// caller in another order is turned over once, at the edge: a stage of its own that writes a `keep`
// buffer. Convolutions of f32, and of 16-bit floats widened to it, are then laid out for register
// tiles (Stage::panel): their weights are read from panels of columns [.., columns / panel, taps..,
// in, panel], which a stage packs (at load if the weights are constants), and an input of few
// channels is copied with its padding, so that a row of the filter is one run of memory.
//
// Only for C++ targets with vectors; others keep the order of the program. Done once, after
// inline_maps.
#ifndef TENON_KERNELGEN_FUSE_LAYOUT_H_
#define TENON_KERNELGEN_FUSE_LAYOUT_H_

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

void choose_layouts(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
