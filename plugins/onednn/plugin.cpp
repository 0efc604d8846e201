// Kernels of oneDNN for the cpu device: products and convolutions with what follows them.
#include <tenon/abi/host.h>
#include <tenon/abi/kernels.h>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>

#include "kernel.h"

namespace tenon::onednn {
namespace {

// Measured on one core: the library's own rate, without its call.
struct Rate {
  double gigaflops, gigabytes_per_second, call_ns;
};
constexpr Rate kAvx512 = {130, 8, 3000}, kOther = {55, 8, 3000};
constexpr double kBf16Gain = 1.6;

Rate rate_of(const Library& l) {
  return l.dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core ? kAvx512 : kOther;
}

// What one run takes on `threads` threads, if they are free.
double cost_of(const Library& l, const Problem& p, const Pieces& pieces) {
  const Rate rate = rate_of(l);
  const double gain = p.src.dtype == TENON_BF16 ? kBf16Gain : 1;
  const double alone = p.flops / rate.gigaflops / gain +
                       pieces.moved_bytes / rate.gigabytes_per_second;
  return alone / static_cast<double>(pieces.pieces.size()) + rate.call_ns;
}

// How many pieces a call is cut into. The same throughout the process, so that a query and the
// kernel made for it agree although the pool may change between them.
uint32_t threads() {
  static const uint32_t count = [] {
    const auto* pool = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
    return pool == nullptr ? 1 : pool->count(pool->self);
  }();
  return count;
}

bool always_wins() {
  return setting("TENON_ONEDNN") == "first";
}

Status open(const Library** out) {
  std::string why;
  if (setting("TENON_ONEDNN") == "off") return refuse("switched off by TENON_ONEDNN=off");
  *out = library(&why);
  return *out != nullptr ? Status() : refuse(why);
}

Status cpu_device(const tenon_device_api_t** out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  if (registry == nullptr) return refuse("this host has no " TENON_HOST_REGISTRY_ID);
  const void* table = nullptr;
  TENON_TRY(registry->plugin_interface(registry->self, str("device"), str("cpu"),
                                       str(TENON_DEVICE_ID), &table));
  *out = static_cast<const tenon_device_api_t*>(table);
  return (*out)->map != nullptr ? Status() : refuse("the host cannot touch this device's memory");
}

std::string_view name_of(const Problem& p) {
  return p.convolution ? "onednn_convolution" : "onednn_product";
}

Status query(void*, tenon_str_t, const tenon_kernel_call_t* call, tenon_kernel_candidate_t* out) {
  Problem problem;
  TENON_TRY(read_problem(*call, &problem));  // before the library is opened for nothing
  const Library* l = nullptr;
  TENON_TRY(open(&l));
  Pieces pieces;
  TENON_TRY(make_pieces(*l, problem, threads(), false, &pieces));
  auto made = sized<tenon_kernel_candidate_t>();
  made.epilogue_taken = problem.epilogue_taken;
  made.prepack_mask = problem.weights_constant ? 1u << kWeights : 0;
  made.part_count = static_cast<uint32_t>(pieces.pieces.size());
  made.cost_ns = always_wins() ? 0 : cost_of(*l, problem, pieces);
  made.workspace_bytes = pieces.workspace_bytes;
  made.name = str(name_of(problem));
  return give_record(out, made);
}

Status create(void*, tenon_device_t* device, const tenon_kernel_call_t* call,
              tenon_kernel_t** out) {
  Problem problem;
  TENON_TRY(read_problem(*call, &problem));
  if (problem.epilogue_taken != call->epilogue_count)
    return refuse("this epilogue is not taken whole");
  const Library* l = nullptr;
  const tenon_device_api_t* api = nullptr;
  TENON_TRY(open(&l));
  TENON_TRY(cpu_device(&api));
  std::unique_ptr<Kernel> kernel;
  TENON_TRY(Kernel::create(*l, std::move(problem), threads(), api, device, &kernel));
  *out = reinterpret_cast<tenon_kernel_t*>(kernel.release());
  return {};
}

Kernel& of(tenon_kernel_t* kernel) {
  return *reinterpret_cast<Kernel*>(kernel);
}

void destroy(void*, tenon_kernel_t* kernel) {
  delete &of(kernel);
}

Status run(void*, tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  return of(kernel).run(*args);
}

Status prepack(void*, tenon_kernel_t* kernel, uint32_t operand, const void* data,
               uint64_t size_bytes, const tenon_sink_t* sink) {
  if (operand != kWeights) return fail(TENON_INVALID_ARGUMENT, "only weights are packed");
  return of(kernel).prepack(data, size_bytes, sink);
}

constexpr tenon_kernels_api_t kKernels = {.size_bytes = sizeof(tenon_kernels_api_t),
                                          .flags = 0,
                                          .self = nullptr,
                                          .device_kind = {"cpu", 3},
                                          .query = entry<query>,
                                          .create = entry<create>,
                                          .destroy = destroy,
                                          .run = entry<run>,
                                          .prepack = entry<prepack>,
                                          .save = nullptr,
                                          .restore = nullptr};
const tenon_interface_t kInterfaces[] = {offer(TENON_KERNELS_ID, kKernels)};

}  // namespace
}  // namespace tenon::onednn

TENON_PLUGIN("onednn", "0.1.0", tenon::onednn::kInterfaces)
