// Functions of the runner in the place of those that the plugin's library calls: its relocations
// are rewritten, in this process alone. What it calls through other libraries is not seen.
#pragma once
#include <string_view>

#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {

// After Session::open(). False where the library does not call a function of this name.
bool hook_calls(const Session& session, std::string_view name, void* function);

template <typename Function>
bool hook_calls(const Session& session, std::string_view name, Function* function) {
  return hook_calls(session, name, reinterpret_cast<void*>(function));
}

}  // namespace tenon::conform
