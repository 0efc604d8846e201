// The interfaces between a host and its plugins, as data: their ids, the size of their tables in
// this SDK, and which slots must not be null. For hosts and tools that handle tables of any kind.
// In its own namespace, because the core uses it too.
#ifndef TENON_CPP_INTERFACES_HPP_
#define TENON_CPP_INTERFACES_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/abi/collective.h"
#include "tenon/abi/compile.h"
#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/abi/frontend.h"
#include "tenon/abi/importers.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/layer.h"
#include "tenon/abi/ops.h"
#include "tenon/abi/pass.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/toolchain.h"

namespace tenon::interfaces {

// A slot that must not be null.
struct RequiredSlot {
  uint32_t offset;
  const char* name;
};

struct InterfaceInfo {
  std::string_view id;
  uint32_t minor;  // the newest that these headers have
  uint32_t size_bytes;
  std::span<const RequiredSlot> required;
};

namespace detail {

#define TENON_SLOT(type, field) {static_cast<uint32_t>(offsetof(type, field)), #field}
inline constexpr RequiredSlot kDeviceSlots[] = {
    TENON_SLOT(tenon_device_api_t, count), TENON_SLOT(tenon_device_api_t, info),
    TENON_SLOT(tenon_device_api_t, open),  TENON_SLOT(tenon_device_api_t, close),
    TENON_SLOT(tenon_device_api_t, alloc), TENON_SLOT(tenon_device_api_t, free),
    TENON_SLOT(tenon_device_api_t, copy)};
inline constexpr RequiredSlot kQueueSlots[] = {
    TENON_SLOT(tenon_queue_api_t, queue_create),  TENON_SLOT(tenon_queue_api_t, queue_destroy),
    TENON_SLOT(tenon_queue_api_t, copy_async),    TENON_SLOT(tenon_queue_api_t, fence_create),
    TENON_SLOT(tenon_queue_api_t, fence_destroy), TENON_SLOT(tenon_queue_api_t, fence_query),
    TENON_SLOT(tenon_queue_api_t, fence_signal),  TENON_SLOT(tenon_queue_api_t, fence_wait)};
inline constexpr RequiredSlot kExchangeSlots[] = {TENON_SLOT(tenon_exchange_api_t, kinds),
                                                  TENON_SLOT(tenon_exchange_api_t, import_memory),
                                                  TENON_SLOT(tenon_exchange_api_t, export_memory)};
inline constexpr RequiredSlot kKernelsSlots[] = {
    TENON_SLOT(tenon_kernels_api_t, query), TENON_SLOT(tenon_kernels_api_t, create),
    TENON_SLOT(tenon_kernels_api_t, destroy), TENON_SLOT(tenon_kernels_api_t, run)};
inline constexpr RequiredSlot kCompileSlots[] = {
    TENON_SLOT(tenon_compile_api_t, claim),
    TENON_SLOT(tenon_compile_api_t, compile),
    TENON_SLOT(tenon_compile_api_t, artifact_release),
    TENON_SLOT(tenon_compile_api_t, artifact_info),
    TENON_SLOT(tenon_compile_api_t, artifact_bytes),
    TENON_SLOT(tenon_compile_api_t, fits),
    TENON_SLOT(tenon_compile_api_t, load),
    TENON_SLOT(tenon_compile_api_t, executable_release),
    TENON_SLOT(tenon_compile_api_t, executable_info),
    TENON_SLOT(tenon_compile_api_t, needs),
    TENON_SLOT(tenon_compile_api_t, execute)};
inline constexpr RequiredSlot kFrontendSlots[] = {TENON_SLOT(tenon_frontend_api_t, accepts)};
inline constexpr RequiredSlot kToolchainSlots[] = {
    TENON_SLOT(tenon_toolchain_api_t, build), TENON_SLOT(tenon_toolchain_api_t, load),
    TENON_SLOT(tenon_toolchain_api_t, symbol), TENON_SLOT(tenon_toolchain_api_t, release)};
inline constexpr RequiredSlot kCollectiveSlots[] = {
    TENON_SLOT(tenon_collective_api_t, launched),
    TENON_SLOT(tenon_collective_api_t, open),
    TENON_SLOT(tenon_collective_api_t, close),
    TENON_SLOT(tenon_collective_api_t, comm_create),
    TENON_SLOT(tenon_collective_api_t, comm_release),
    TENON_SLOT(tenon_collective_api_t, takes),
    TENON_SLOT(tenon_collective_api_t, start),
    TENON_SLOT(tenon_collective_api_t, test),
    TENON_SLOT(tenon_collective_api_t, work_release),
    TENON_SLOT(tenon_collective_api_t, abort)};
inline constexpr RequiredSlot kLayerSlots[] = {TENON_SLOT(tenon_layer_api_t, attach)};
#undef TENON_SLOT

inline constexpr InterfaceInfo kKnown[] = {
    {TENON_OPS_ID, TENON_OPS_MINOR, sizeof(tenon_ops_t), {}},
    {TENON_PASS_ID, TENON_PASS_MINOR, sizeof(tenon_passes_t), {}},
    {TENON_DEVICE_ID, TENON_DEVICE_MINOR, sizeof(tenon_device_api_t), kDeviceSlots},
    {TENON_QUEUE_ID, TENON_QUEUE_MINOR, sizeof(tenon_queue_api_t), kQueueSlots},
    {TENON_EXCHANGE_ID, TENON_EXCHANGE_MINOR, sizeof(tenon_exchange_api_t), kExchangeSlots},
    {TENON_KERNELS_ID, TENON_KERNELS_MINOR, sizeof(tenon_kernels_api_t), kKernelsSlots},
    {TENON_COMPILE_ID, TENON_COMPILE_MINOR, sizeof(tenon_compile_api_t), kCompileSlots},
    {TENON_FRONTEND_ID, TENON_FRONTEND_MINOR, sizeof(tenon_frontend_api_t), kFrontendSlots},
    {TENON_TOOLCHAIN_ID, TENON_TOOLCHAIN_MINOR, sizeof(tenon_toolchain_api_t), kToolchainSlots},
    {TENON_COLLECTIVE_ID, TENON_COLLECTIVE_MINOR, sizeof(tenon_collective_api_t), kCollectiveSlots},
    {TENON_LAYER_ID, TENON_LAYER_MINOR, sizeof(tenon_layer_api_t), kLayerSlots},
    {TENON_IMPORTERS_ID, TENON_IMPORTERS_MINOR, sizeof(tenon_importers_t), {}},
};

}  // namespace detail

// All interfaces that plugins provide.
inline std::span<const InterfaceInfo> known_interfaces() {
  return detail::kKnown;
}

}  // namespace tenon::interfaces

#endif
