// tenon.host.kernels/1: candidates of kernel sets for a device kind.
#pragma once
#include <tenon/abi/kernels.h>

namespace tenon::session {

const tenon_host_kernels_t* host_kernels_table();

}  // namespace tenon::session
