// tenon.host.plugins/1: plugins that the program registers.
#pragma once
#include <tenon/abi/plugins.h>

namespace tenon::session {

const tenon_host_plugins_t* host_plugins_table();

}  // namespace tenon::session
