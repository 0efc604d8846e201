// Kernels of oneDNN for the cpu device: products and convolutions with what follows them.
#include <tenon/abi/host.h>
#include <tenon/abi/kernels.h>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>

#include "kernel.h"

namespace tenon::onednn {
namespace {

// Costs are compared with the cpu device's estimates and nothing else, so they are on their scale:
// 100 Gflop/s are what the device's own code does. It is as fast or faster in f32 (measured on Zen
// 5 with AVX-512), so the library states less there; in bf16 the library is twice as fast.
struct Rate {
  double f32_gigaflops, bf16_gigaflops;
};
constexpr Rate kAvx512Bf16 = {80, 200}, kAvx512 = {80, 50}, kOther = {50, 30};
constexpr double kReorderBytesPerNs = 8, kCallNs = 3000;
// Few rows are bound by the reading of weights, for which the device states 30 GB/s. It also knows
// weights of few bits, which reach the library widened.
constexpr double kMemoryBytesPerNs = 24;
// The device states this much for each node that follows, per byte of the result.
constexpr double kFollowBytesPerNs = 15;

Rate rate_of(const Library& l) {
  const dnnl_cpu_isa_t isa = l.dnnl_get_effective_cpu_isa();
  return isa >= dnnl_cpu_isa_avx512_core_bf16 ? kAvx512Bf16
         : isa >= dnnl_cpu_isa_avx512_core    ? kAvx512
                                              : kOther;
}

template <class Tensor>
double bytes_in(const Tensor& tensor) {
  double bytes = static_cast<double>(bytes_of(tensor.dtype));
  for (const int64_t d : tensor.dims) bytes *= static_cast<double>(d);
  return bytes;
}

double cost_of(const Library& l, const Problem& p, const Pieces& pieces) {
  const Rate rate = rate_of(l);
  const double result_bytes = bytes_in(p.dst);
  const double computing =
      p.flops / (p.src.dtype == TENON_BF16 ? rate.bf16_gigaflops : rate.f32_gigaflops);
  const double reading = (bytes_in(p.src) + bytes_in(p.weights) + result_bytes) / kMemoryBytesPerNs;
  return std::max(computing, reading) + pieces.moved_bytes / kReorderBytesPerNs + kCallNs +
         p.epilogue_taken * result_bytes / kFollowBytesPerNs;
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

// The library makes code for the processor that it runs on, and is not known to be elsewhere.
Status check_target(tenon_str_t target) {
  const tenon_device_api_t* api = nullptr;
  TENON_TRY(cpu_device(&api));
  auto info = sized<tenon_device_info_t>();
  TENON_TRY(api->info(api->self, 0, &info));
  return view(info.target) == view(target) ? Status() : refuse("this machine's processor only");
}

// It always uses what the processor has, also where a setting limits the device to less.
Status check_isa(const Library& l, tenon_str_t target) {
  const dnnl_cpu_isa_t isa = l.dnnl_get_effective_cpu_isa();
  const std::string_view least = isa >= dnnl_cpu_isa_avx512_core ? "isa=avx512"
                                 : isa >= dnnl_cpu_isa_avx2      ? "isa=avx2"
                                                                 : "isa=";
  return view(target).find(least) != std::string_view::npos
             ? Status()
             : refuse("the library would use more of the processor than the device may");
}

std::string_view name_of(const Problem& p) {
  return p.convolution ? "onednn_convolution" : "onednn_product";
}

Status query(void*, tenon_str_t target, const tenon_kernel_call_t* call,
             tenon_kernel_candidate_t* out) {
  Problem problem;
  TENON_TRY(read_problem(*call, &problem));  // before the library is opened for nothing
  TENON_TRY(check_target(target));
  const Library* l = nullptr;
  TENON_TRY(open(&l));
  TENON_TRY(check_isa(*l, target));
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
constexpr tenon_interface_t kInterfaces[] = {offer(TENON_KERNELS_ID, kKernels)};

}  // namespace
}  // namespace tenon::onednn

TENON_PLUGIN("onednn", "0.1.0", tenon::onednn::kInterfaces)
