// A host with graphs only, and the ops plugin linked in without its entry. The interface is plain C
// types, so that both core's and the SDK's C++ can include it.
#pragma once
#include <string>

#include "tenon/abi/plugin.h"

namespace tenon {

const tenon_host_t* test_host();
// Gives the host to the linked ops plugin and registers its ops. Empty, or the error.
std::string register_test_ops();

}  // namespace tenon
