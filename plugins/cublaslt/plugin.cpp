// Kernels of cuBLASLt for the cuda device: products with what follows them.
#include <tenon/abi/kernels.h>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/timeline.hpp>

#include <algorithm>
#include <charconv>

#include "kernel.h"

namespace tenon::cublaslt {
namespace {

// Costs are compared with the cuda device's estimates and nothing else, so they are on their scale:
// 10 Tflop/s, 1000 GB/s and 5 us for each node. Not measured: this has met no GPU yet, and
// --autotune measures. Tensor cores take f16, bf16 and what TF32 is allowed for.
constexpr double kF32Gigaflops = 20000, kTensorGigaflops = 200000;
constexpr double kBytesPerNs = 1000, kCallNs = 5000;

// The device states this for each node that follows, fused or not.
double follow_ns(const Problem& p) {
  return p.epilogue_taken * (kCallNs + 2 * p.result_bytes / kBytesPerNs);
}

double cost_of(const Problem& p) {
  const bool tensor = p.source.type != kF32 || p.compute == kComputeTf32;
  return kCallNs + follow_ns(p) +
         std::max(p.flops / (tensor ? kTensorGigaflops : kF32Gigaflops), p.bytes / kBytesPerNs);
}

bool always_wins() {
  return setting("TENON_CUBLASLT") == "first";
}

Status open(const Library** out) {
  if (setting("TENON_CUBLASLT") == "off") return refuse("switched off by TENON_CUBLASLT=off");
  std::string why;
  *out = library(&why);
  return *out != nullptr ? Status() : refuse(why);
}

// The compute capability of the GPU that a target of the cuda device means: 120 for "cuda sm_120",
// "sm_120 threads=512" and "cuda sm_90 on sm_120". 0 for other words. The library needs no more:
// the code's architecture, its letter and the limits of groups are the device's own matter.
int capability_of(std::string_view target) {
  constexpr std::string_view kPrefix = "cuda ", kOn = " on ", kArchitecture = "sm_";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  if (const size_t on = target.find(kOn); on != std::string_view::npos)
    target.remove_prefix(on + kOn.size());
  if (!target.starts_with(kArchitecture)) return 0;
  target.remove_prefix(kArchitecture.size());
  int out = 0;
  (void)std::from_chars(target.data(), target.data() + target.size(), out);
  return out;
}

// The library chooses algorithms for the GPU that it runs on, and is not known to be elsewhere.
// *out: the driver's number of such a GPU.
Status find_gpu(const Tables& tables, tenon_str_t target, int* out) {
  const int wanted = capability_of(view(target));
  uint32_t count = 0;
  TENON_TRY(tables.device->count(tables.device->self, &count));
  for (uint32_t i = 0; i < count; ++i) {
    auto info = sized<tenon_device_info_t>();
    TENON_TRY(tables.device->info(tables.device->self, i, &info));
    if (wanted == 0 || capability_of(view(info.target)) != wanted) continue;
    *out = static_cast<int>(info.native_ordinal);
    return {};
  }
  return refuse("this machine's GPUs only");
}

Status query(void*, tenon_str_t target, const tenon_kernel_call_t* call,
             tenon_kernel_candidate_t* out) {
  Problem problem;
  TENON_TRY(read_problem(*call, allowed(), &problem));  // before a library is opened for nothing
  Tables tables;
  TENON_TRY(find_tables(&tables));
  int gpu = 0;
  TENON_TRY(find_gpu(tables, target, &gpu));
  const Library* l = nullptr;
  TENON_TRY(open(&l));
  // What the library does not do on this GPU is the device's own to do.
  if (const Status asked = Kernel::ask(*l, gpu, problem); !asked.ok())
    return refuse(fault_of(asked.code()).text);
  auto made = sized<tenon_kernel_candidate_t>();
  made.epilogue_taken = problem.epilogue_taken;
  made.part_count = 1;
  made.cost_ns = always_wins() ? 0 : cost_of(problem);
  made.workspace_bytes = workspace_bytes(problem);
  made.name = str("cublaslt_product");
  return give_record(out, made);
}

Status create(void*, tenon_device_t* device, const tenon_kernel_call_t* call,
              tenon_kernel_t** out) {
  Problem problem;
  TENON_TRY(read_problem(*call, allowed(), &problem));
  if (problem.epilogue_taken != call->epilogue_count)
    return refuse("this epilogue is not taken whole");
  const Library* l = nullptr;
  Tables tables;
  TENON_TRY(open(&l));
  TENON_TRY(find_tables(&tables));
  std::unique_ptr<Kernel> kernel;
  TENON_TRY(Kernel::create(*l, tables, device, problem, &kernel));
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

constexpr tenon_kernels_api_t kKernels = {.size_bytes = sizeof(tenon_kernels_api_t),
                                          .flags = TENON_KERNELS_ON_QUEUE,
                                          .self = nullptr,
                                          .device_kind = {"cuda", 4},
                                          .queue_kind = {"cuda.stream", 11},
                                          .query = entry<query>,
                                          .create = entry<create>,
                                          .destroy = destroy,
                                          .run = entry<run>,
                                          .prepack = nullptr,
                                          .save = nullptr,
                                          .restore = nullptr};
const tenon_interface_t kInterfaces[] = {offer(TENON_KERNELS_ID, kKernels)};

}  // namespace
}  // namespace tenon::cublaslt

TENON_PLUGIN("cublaslt", "0.1.0", tenon::cublaslt::kInterfaces)
