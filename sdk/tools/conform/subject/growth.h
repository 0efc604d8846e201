// Whether something that is done again and again leaves anything behind in the process.
#pragma once
#include <functional>
#include <string_view>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// Calls `once` so many times to warm up, and so many times again in each of three parts. Fails when
// memory that the allocator has given out, address space, threads or file descriptors grew in every
// part by as much as each call leaving something behind makes: what grows once is a cache. `what`
// is done: "devices were opened and closed".
Outcome leaves_nothing(int rounds, std::string_view what, const std::function<Outcome()>& once);

}  // namespace tenon::conform
