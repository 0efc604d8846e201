// Opens a plugin's library and calls its one symbol. Only this file does so; how the system opens
// it is in core/host/platform.
#pragma once
#include <string>
#include <string_view>

#include <tenon/abi/plugin.h>

#include "core/base/errors/status.h"

namespace tenon::host {

// Opens `path` (absolute) with immediate, local binding, for the life of the process, and finds
// tenon_plugin_query. P0701 cannot be opened, P0702 no such symbol, P0703 the symbol is not a
// function.
Result<tenon_plugin_query_t> open_library(const std::string& path);

// Calls a query and stops its exceptions. P0801 with the plugin's reason if it refuses, P0807 if it
// throws.
Result<const tenon_plugin_t*> ask_plugin(tenon_plugin_query_t query, const tenon_host_t* host,
                                         std::string_view name);

}  // namespace tenon::host
