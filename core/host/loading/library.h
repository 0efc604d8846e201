// Opening a plugin's library and asking its one symbol. The only place that does it, and the only
// one that sees Boost.DLL.
#pragma once
#include <string>
#include <string_view>

#include <tenon/abi/plugin.h>

#include "core/base/errors/status.h"

namespace tenon::host {

// Opens `path` (absolute) with immediate, local binding, to stay for the process, and finds
// tenon_plugin_query. P0701 cannot be opened, P0702 no such symbol, P0703 the symbol is no
// function.
Result<tenon_plugin_query_t> open_library(const std::string& path);

// Calls a query, letting no exception through. P0801 and the plugin's reason when it refuses, P0807
// when it throws.
Result<const tenon_plugin_t*> ask_plugin(tenon_plugin_query_t query, const tenon_host_t* host,
                                         std::string_view name);

}  // namespace tenon::host
