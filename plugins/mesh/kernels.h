// The kernel set: one kernel for each op that processes compute together.
#ifndef TENON_PLUGINS_MESH_KERNELS_H_
#define TENON_PLUGINS_MESH_KERNELS_H_

#include "tenon/abi/kernels.h"

namespace tenon::mesh {
extern const tenon_kernels_api_t kKernelsTable;
}  // namespace tenon::mesh

#endif
