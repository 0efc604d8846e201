// tenon.host.inspect/1: graphs between passes, the cache folder, crashes.
#pragma once
#include <tenon/abi/inspect.h>

namespace tenon::session {

const tenon_host_inspect_t* host_inspect_table();

}  // namespace tenon::session
