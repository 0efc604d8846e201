// Replaces functions that the plugin's library calls with functions of the runner, by rewriting its
// relocations in this process. Calls made through other libraries are not seen.
#pragma once
#include <string_view>

#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {

// Call after Session::open(). False if the library does not call a function of this name.
bool hook_calls(const Session& session, std::string_view name, void* function);

template <typename Function>
bool hook_calls(const Session& session, std::string_view name, Function* function) {
  return hook_calls(session, name, reinterpret_cast<void*>(function));
}

}  // namespace tenon::conform
