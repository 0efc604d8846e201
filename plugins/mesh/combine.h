// Combines the parts of several processes in the order of their ranks: for element types and kinds
// that an engine does not combine itself, and where results must not depend on the engine.
#ifndef TENON_PLUGINS_MESH_COMBINE_H_
#define TENON_PLUGINS_MESH_COMBINE_H_

#include <cstdint>

#include "tenon/abi/collective.h"

namespace tenon::mesh {

// parts: `count` parts of `elements` elements, one after the other. combine: TENON_COMBINE_*. f16
// and bf16 are combined in f32 and rounded once. A minimum or maximum with a NaN is NaN.
void combine_parts(uint32_t combine, tenon_dtype_t dtype, const void* parts, int64_t count,
                   uint64_t elements, void* out);

}  // namespace tenon::mesh

#endif
