// The GPUs of this machine and the targets of their code.
#ifndef TENON_PLUGINS_CUDA_DEVICE_H_
#define TENON_PLUGINS_CUDA_DEVICE_H_

#include <deque>
#include <string>

#include "cuda_symbols.h"
#include "tenon/abi/compile.h"
#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/stream/group_limits.h"

namespace tenon::cuda {

// A target is "cuda sm_90". Its code is PTX, which runs on that architecture and all later ones,
// except for those with a letter, "sm_90a", which run on their own alone.
// The text of a target in full: also "sm_90" is one. INVALID_ARGUMENT for what is none.
Status full_target(std::string_view text, std::string* out);
// What each architecture allows kernels that ask for nothing. A device may allow less, and says so
// in its target.
constexpr stream::GroupLimits kLimits = {1024, 48 << 10};
// Whether code for one target runs on a device of another.
bool runs_on(std::string_view made_for, std::string_view device);

extern const tenon_device_api_t kDeviceTable;
extern const tenon_exchange_api_t kExchangeTable;
extern const tenon_compile_api_t kCompileTable;

}  // namespace tenon::cuda
#endif
