// The GPUs of this machine and the targets of their code.
#ifndef TENON_PLUGINS_ROCM_DEVICE_H_
#define TENON_PLUGINS_ROCM_DEVICE_H_

#include <string>

#include "tenon/abi/compile.h"
#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/cpp/status.hpp"
#include "tenon/stream/group_limits.h"

namespace tenon::rocm {

// A target is "rocm gfx942". Its code is a code object for that architecture alone.
// The text of a target in full: also "gfx942" is one. INVALID_ARGUMENT for what is none.
Status full_target(std::string_view text, std::string* out);
// What each architecture allows. A device may allow less, and says so in its target.
constexpr stream::GroupLimits kLimits = {1024, 64 << 10};
// How many work items of a target run in step: 32 or 64; 64 for what is none.
uint32_t warp_of(std::string_view target);

extern const tenon_device_api_t kDeviceTable;
extern const tenon_exchange_api_t kExchangeTable;
extern const tenon_compile_api_t kCompileTable;

}  // namespace tenon::rocm
#endif
