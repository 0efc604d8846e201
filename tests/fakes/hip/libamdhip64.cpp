// HIP's functions over those of the tests' CUDA driver, whose shape they have. Contexts become the
// device that is current on a thread; code objects are looked at, and run where their text is
// there.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "../cuda/driver.h"
#include "../cuda/text.h"
#include "code_object.h"
#include "cuda_functions.h"

using namespace fake_cuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum : int { kNoBinaryForGpu = 209, kInvalidImage = 200, kNotSupported = 801, kInsufficient = 35 };

thread_local int t_device = 0;

// The primary context of the thread's device is current as long as it lives.
struct Current {
  Current() { current().push_back(&World::get().primary[static_cast<size_t>(t_device)]); }
  ~Current() { current().pop_back(); }
};

template <class F, class... Args>
int on_device(F* function, Args... args) {
  const Current in;
  return function(args...);
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// "gfx1100"
const std::string& architecture() {
  static const std::string name = variable("FAKE_HIP_ARCHITECTURE", "gfx1100");
  return name;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// A module without the text of its kernels: found by name, but not started.
struct HipModule {
  CodeObject code;
  void* runs = nullptr;  // of the tests' CUDA driver, null without text
};
struct HipFunction {
  void* runs = nullptr;
};
std::map<HipModule*, std::map<std::string, HipFunction>>& modules() {
  static std::map<HipModule*, std::map<std::string, HipFunction>> all;
  return all;
}
std::mutex& mutex_of_modules() {
  static std::mutex mutex;
  return mutex;
}

// The text that the code was made of is not in a code object. The tests' toolchain appends PTX
// of it, or tests give it in a file.
int load_text(HipModule* module) {
  if (!module->code.ptx.empty())
    return cuModuleLoadDataEx(&module->runs, module->code.ptx.c_str(), 0, nullptr, nullptr);
  const std::string path = variable("FAKE_HIP_SOURCE", "");
  if (path.empty()) return 0;
  static std::map<std::string, std::string> known;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string text = read_text(path);
  std::string& ptx = known[text];
  std::string why;
  if (ptx.empty() && !to_ptx(text,
                             {"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80",
                              "-nocudainc", "-nocudalib", "-std=c++20", "-Wno-unknown-cuda-version",
                              "-ffp-contract=off", "-include", FAKE_HIP_AS_CUDA},
                             &ptx, &why)) {
    std::fprintf(stderr, "fake hip: the text of FAKE_HIP_SOURCE does not compile: %s\n",
                 why.c_str());
    return kInvalidImage;
  }
  return cuModuleLoadDataEx(&module->runs, ptx.c_str(), 0, nullptr, nullptr);
}

}  // namespace

// ---- The runtime and its devices ----

EXPORT int hipInit(unsigned flags) {
  const int code = cuInit(flags);
  if (code == 0) World::get().contexts = 1;
  return code;
}
EXPORT int hipDriverGetVersion(int* out) {
  *out = 60000000;
  return 0;
}
EXPORT const char* hipGetErrorName(int code) {
  switch (code) {
    case 2:
      return "hipErrorOutOfMemory";
    case kInvalidValue:
      return "hipErrorInvalidValue";
    case kInsufficient:
      return "hipErrorInsufficientDriver";
    case 100:
      return "hipErrorNoDevice";
    case kNoBinaryForGpu:
      return "hipErrorNoBinaryForGpu";
    case kInvalidImage:
      return "hipErrorInvalidImage";
    case 700:
      return "hipErrorIllegalAddress";
    case kNotSupported:
      return "hipErrorNotSupported";
    default:
      return "hipErrorUnknown";
  }
}
EXPORT const char* hipGetErrorString(int) {
  return "a text of the tests' runtime";
}
EXPORT int hipGetDeviceCount(int* out) {
  return cuDeviceGetCount(out);
}
EXPORT int hipDeviceGetName(char* out, int size, int device) {
  return cuDeviceGetName(out, size, device);
}
EXPORT int hipDeviceTotalMem(size_t* out, int device) {
  return cuDeviceTotalMem_v2(out, device);
}
EXPORT int hipDeviceGetAttribute(int* out, int which, int device) {
  const int of_cuda = which == 56 ? 1 : which == 74 ? 81 : which == 88 ? 115 : 0;
  return cuDeviceGetAttribute(out, of_cuda, device);
}
EXPORT int hipDeviceGetUuid(unsigned char* out, int device) {
  return cuDeviceGetUuid_v2(out, device);
}
EXPORT int hipGetDevice(int* out) {
  *out = t_device;
  return World::get().begin_call(__func__);
}
EXPORT int hipSetDevice(int device) {
  const int wanted = World::get().begin_call(__func__);
  if (device < 0 || device >= settings().devices) return kInvalidDevice;
  // As a release does: what is made current before is so also when this reports an earlier error.
  t_device = device;
  return wanted;
}
// The record of ROCm 6, of which only the two texts are filled.
EXPORT int hipGetDevicePropertiesR0600(void* out, int device) {
  constexpr size_t kArchitectureAt = 1160;
  std::snprintf(static_cast<char*>(out), 256, "the tests' AMD GPU");
  std::snprintf(static_cast<char*>(out) + kArchitectureAt, 256, "%s:sramecc+:xnack-",
                device < settings().old ? "gfx803" : architecture().c_str());
  return World::get().begin_call(__func__);
}

// ---- Streams, events, memory ----

EXPORT int hipStreamCreateWithFlags(void** out, unsigned flags) {
  return on_device(cuStreamCreate, out, flags);
}
EXPORT int hipStreamDestroy(void* stream) {
  return cuStreamDestroy_v2(stream);
}
EXPORT int hipStreamSynchronize(void* stream) {
  return cuStreamSynchronize(stream);
}
EXPORT int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return cuStreamWaitEvent(stream, event, flags);
}
EXPORT int hipEventCreateWithFlags(void** out, unsigned flags) {
  return on_device(cuEventCreate, out, flags);
}
EXPORT int hipEventDestroy(void* event) {
  return cuEventDestroy_v2(event);
}
EXPORT int hipEventRecord(void* event, void* stream) {
  return cuEventRecord(event, stream);
}
EXPORT int hipEventSynchronize(void* event) {
  return cuEventSynchronize(event);
}
EXPORT int hipEventQuery(void* event) {
  return cuEventQuery(event);
}
EXPORT int hipEventElapsedTime(float* out, void* from, void* to) {
  return cuEventElapsedTime(out, from, to);
}
EXPORT int hipMalloc(void** out, size_t bytes) {
  unsigned long long at = 0;
  const int code = on_device(cuMemAlloc_v2, &at, bytes);
  *out = reinterpret_cast<void*>(at);
  return code;
}
EXPORT int hipFree(void* address) {
  return cuMemFree_v2(reinterpret_cast<unsigned long long>(address));
}
EXPORT int hipMemPoolCreate(void** out, const void* properties) {
  return cuMemPoolCreate(out, properties);
}
EXPORT int hipMemPoolDestroy(void* pool) {
  return cuMemPoolDestroy(pool);
}
EXPORT int hipMemPoolSetAttribute(void* pool, int which, void* value) {
  return cuMemPoolSetAttribute(pool, which, value);
}
EXPORT int hipMemPoolTrimTo(void* pool, size_t bytes) {
  return cuMemPoolTrimTo(pool, bytes);
}
EXPORT int hipMemPoolSetAccess(void* pool, const void* descriptions, size_t count) {
  return cuMemPoolSetAccess(pool, descriptions, count);
}
EXPORT int hipMallocFromPoolAsync(void** out, size_t bytes, void* pool, void* stream) {
  unsigned long long at = 0;
  const int code = on_device(cuMemAllocFromPoolAsync, &at, bytes, pool, stream);
  *out = reinterpret_cast<void*>(at);
  return code;
}
EXPORT int hipFreeAsync(void* address, void* stream) {
  return on_device(cuMemFreeAsync, reinterpret_cast<unsigned long long>(address), stream);
}
EXPORT int hipDeviceCanAccessPeer(int* out, int device, int peer) {
  return cuDeviceCanAccessPeer(out, device, peer);
}
EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (peer < 0 || peer >= settings().devices) return kInvalidDevice;
  return on_device(cuCtxEnablePeerAccess,
                   static_cast<void*>(&World::get().primary[static_cast<size_t>(peer)]), flags);
}
EXPORT int hipMemcpyPeerAsync(void* to, int device, const void* from, int peer, size_t bytes,
                              void* stream) {
  const auto context = [](int of) {
    return static_cast<void*>(&World::get().primary[static_cast<size_t>(of)]);
  };
  return on_device(cuMemcpyPeerAsync, reinterpret_cast<unsigned long long>(to), context(device),
                   reinterpret_cast<unsigned long long>(from), context(peer), bytes, stream);
}
EXPORT int hipHostMalloc(void** out, size_t bytes, unsigned flags) {
  return on_device(cuMemHostAlloc, out, bytes, flags);
}
EXPORT int hipHostFree(void* data) {
  return cuMemFreeHost(data);
}
EXPORT int hipMemcpyHtoDAsync(unsigned long long to, const void* from, size_t bytes, void* stream) {
  return on_device(cuMemcpyHtoDAsync_v2, to, from, bytes, stream);
}
EXPORT int hipMemcpyDtoHAsync(void* to, unsigned long long from, size_t bytes, void* stream) {
  return on_device(cuMemcpyDtoHAsync_v2, to, from, bytes, stream);
}
EXPORT int hipMemcpyDtoDAsync(unsigned long long to, unsigned long long from, size_t bytes,
                              void* stream) {
  return on_device(cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
}
EXPORT int hipMemsetD8Async(unsigned long long to, unsigned char value, size_t count,
                            void* stream) {
  return on_device(cuMemsetD8Async, to, value, count, stream);
}
EXPORT int hipMemsetD16Async(unsigned long long to, unsigned short value, size_t count,
                             void* stream) {
  return on_device(cuMemsetD16Async, to, value, count, stream);
}
EXPORT int hipMemsetD32Async(unsigned long long to, int value, size_t count, void* stream) {
  return on_device(cuMemsetD32Async, to, static_cast<unsigned>(value), count, stream);
}
EXPORT int hipPointerGetAttribute(void* out, int which, unsigned long long address) {
  return cuPointerGetAttribute(out, which, address);
}
EXPORT int hipMemGetAddressRange(void** begin, size_t* size, unsigned long long address) {
  const int code = cuPointerGetAttribute(begin, 11, address);
  return code != 0 ? code : cuPointerGetAttribute(size, 12, address);
}

// ---- Code ----

EXPORT int hipModuleLoadData(void** out, const void* image) {
  if (const int code = World::get().begin_call(__func__); code != 0) return code;
  auto module = std::make_unique<HipModule>();
  std::string why;
  if (!module->code.parse(static_cast<const unsigned char*>(image), &why)) {
    std::fprintf(stderr, "fake hip: %s\n", why.c_str());
    return kInvalidImage;
  }
  if (module->code.architecture != architecture()) return kNoBinaryForGpu;
  {
    const Current in;
    if (const int code = load_text(module.get()); code != 0) return code;
  }
  const std::lock_guard lock(mutex_of_modules());
  *out = module.get();
  modules()[module.release()];
  return 0;
}
EXPORT int hipModuleUnload(void* handle) {
  const int wanted = World::get().begin_call(__func__);
  auto* module = static_cast<HipModule*>(handle);
  const std::lock_guard lock(mutex_of_modules());
  if (modules().erase(module) == 0) return kInvalidHandle;
  if (module->runs != nullptr) (void)cuModuleUnload(module->runs);
  delete module;
  return wanted;
}
EXPORT int hipModuleGetFunction(void** out, void* handle, const char* name) {
  if (const int code = World::get().begin_call(__func__); code != 0) return code;
  auto* module = static_cast<HipModule*>(handle);
  const std::lock_guard lock(mutex_of_modules());
  const auto known = modules().find(module);
  if (known == modules().end()) return kInvalidHandle;
  if (!module->code.kernels.contains(name)) return kNotFound;
  HipFunction& function = known->second[name];
  if (module->runs != nullptr && function.runs == nullptr) {
    if (const int code = cuModuleGetFunction(&function.runs, module->runs, name); code != 0)
      return code;
  }
  *out = &function;
  return 0;
}
EXPORT int hipModuleLaunchKernel(void* handle, unsigned x, unsigned y, unsigned z, unsigned tx,
                                 unsigned ty, unsigned tz, unsigned shared, void* stream,
                                 void** parameters, void** extra) {
  auto* function = static_cast<HipFunction*>(handle);
  if (function->runs != nullptr)
    return on_device(cuLaunchKernel, function->runs, x, y, z, tx, ty, tz, shared, stream,
                     parameters, extra);
  const int code = World::get().begin_call(__func__);
  return code != 0 ? code : kNotSupported;
}

// ---- Graphs ----

EXPORT int hipThreadExchangeStreamCaptureMode(int* mode) {
  return cuThreadExchangeStreamCaptureMode(mode);
}
EXPORT int hipStreamIsCapturing(void* stream, int* out) {
  return on_device(cuStreamIsCapturing, stream, out);
}
EXPORT int hipStreamBeginCapture(void* stream, int mode) {
  return on_device(cuStreamBeginCapture_v2, stream, mode);
}
EXPORT int hipStreamEndCapture(void* stream, void** out) {
  return on_device(cuStreamEndCapture, stream, out);
}
EXPORT int hipGraphInstantiate(void** out, void* graph, void**, char*, size_t) {
  return on_device(cuGraphInstantiateWithFlags, out, graph, 0ULL);
}
EXPORT int hipGraphLaunch(void* graph, void* stream) {
  return on_device(cuGraphLaunch, graph, stream);
}
EXPORT int hipGraphDestroy(void* graph) {
  return cuGraphDestroy(graph);
}
EXPORT int hipGraphExecDestroy(void* graph) {
  return cuGraphExecDestroy(graph);
}

// ---- For tests ----

EXPORT void fake_hip_fail_in(uint64_t n, int code) {
  World::get().fail_in(n, code);
}
EXPORT uint64_t fake_hip_peer_copies() {
  return World::get().peer_copies;
}
EXPORT uint64_t fake_hip_calls() {
  return World::get().calls();
}
EXPORT uint64_t fake_hip_in_use() {
  for (Stream* stream : World::get().streams) stream->wait();
  const std::lock_guard lock(mutex_of_modules());
  return World::get().memory_in_use() + modules().size();
}
