// A plugin that throws an exception across the boundary.
#include "tenon/abi/plugin.h"

extern "C" TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t, const tenon_host_t*,
                                                        const tenon_plugin_t**) {
  throw 42;
}
