// A host with graphs and nothing else, and the ops plugin linked in: the ops without the door.
// Plain C types, so that both core's and the SDK's C++ can include it.
#pragma once
#include <string>

#include "tenon/abi/plugin.h"

namespace tenon {

const tenon_host_t* test_host();
// Hands the host to the linked ops plugin and registers what it offers. Empty, or what went wrong.
std::string register_test_ops();

}  // namespace tenon
