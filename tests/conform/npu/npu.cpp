// An NPU as a vendor writes one: own memory, asynchronous queues, patterns alone, concrete sizes.
// NPU_BUG=name plants one of the faults that npu.py lists. All of it is in headers, so that one
// command compiles it.
#include "programs.h"

namespace npu {
namespace {

constexpr tenon_device_api_t kDevice = {.size_bytes = sizeof(tenon_device_api_t),
                                        .self = nullptr,
                                        .count = tenon::entry<count>,
                                        .info = tenon::entry<info>,
                                        .open = tenon::entry<open>,
                                        .close = tenon::entry<close>,
                                        .alloc = tenon::entry<alloc>,
                                        .free = tenon::entry<free_buffer>,
                                        .copy = tenon::entry<copy>};
constexpr tenon_queue_api_t kQueue = {sizeof(tenon_queue_api_t),
                                      nullptr,
                                      tenon::entry<queue_create>,
                                      tenon::entry<queue_destroy>,
                                      tenon::entry<copy_async>,
                                      tenon::entry<fence_create>,
                                      tenon::entry<fence_destroy>,
                                      tenon::entry<fence_query>,
                                      tenon::entry<fence_signal>,
                                      tenon::entry<fence_wait>,
                                      nullptr};
constexpr tenon_compile_api_t kCompile = {.size_bytes = sizeof(tenon_compile_api_t),
                                          .self = nullptr,
                                          .claim = tenon::entry<claim>,
                                          .compile = tenon::entry<compile>,
                                          .artifact_release = artifact_release,
                                          .artifact_info = tenon::entry<artifact_info>,
                                          .artifact_bytes = tenon::entry<artifact_bytes>,
                                          .fits = tenon::entry<fits>,
                                          .load = tenon::entry<load>,
                                          .executable_release = executable_release,
                                          .executable_info = tenon::entry<executable_info>,
                                          .needs = tenon::entry<needs>,
                                          .execute = tenon::entry<execute>,
                                          .properties = tenon::entry<properties>};
constexpr tenon_interface_t g_interfaces[] = {tenon::offer(TENON_DEVICE_ID, kDevice),
                                              tenon::offer(TENON_QUEUE_ID, kQueue),
                                              tenon::offer(TENON_COMPILE_ID, kCompile)};
}  // namespace
}  // namespace npu

TENON_PLUGIN("npu", "0.1.0", npu::g_interfaces)
