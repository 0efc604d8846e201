// A process may load libtenon.so more than once, from different paths. A plugin keeps one host
// pointer, so only one copy may be the host: the one that was loaded first.
#pragma once
#include <tenon/abi/session.h>

namespace tenon::session {

using HostOpen = tenon_code_t (*)(uint32_t abi, const tenon_host_options_t* options,
                                  const tenon_host_t** out_host);

// The tenon_host_open of the first loaded copy; null if this is it. Threads: safe.
HostOpen open_of_first_copy();

}  // namespace tenon::session
