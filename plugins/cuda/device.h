// The GPUs of this machine.
#ifndef TENON_PLUGINS_CUDA_DEVICE_H_
#define TENON_PLUGINS_CUDA_DEVICE_H_

#include "tenon/abi/compile.h"
#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"

namespace tenon::cuda {

extern const tenon_device_api_t kDeviceTable;
extern const tenon_exchange_api_t kExchangeTable;
extern const tenon_compile_api_t kCompileTable;

}  // namespace tenon::cuda
#endif
