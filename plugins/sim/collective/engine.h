// An engine without processes: all ranks are in this one (tenon.collective/1, "sim").
#ifndef TENON_PLUGINS_SIM_ENGINE_H_
#define TENON_PLUGINS_SIM_ENGINE_H_

#include "tenon/abi/collective.h"

namespace tenon::sim {
extern const tenon_collective_api_t kCollectiveTable;
}  // namespace tenon::sim

#endif
