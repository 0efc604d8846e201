// Whether a repeated action leaks anything in the process.
#pragma once
#include <functional>
#include <string_view>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// Calls `once` `rounds` times to warm up, and `rounds` times again in each of three parts. Fails if
// allocated memory, address space, threads or file descriptors grew in every part by as much as if
// each call leaked something; growth that happens once is a cache. `what` was done: "devices
// were opened and closed".
Outcome leaves_nothing(int rounds, std::string_view what, const std::function<Outcome()>& once);

}  // namespace tenon::conform
