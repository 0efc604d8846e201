// Kernels in kernelgen's OpenCL dialect: compiled by the host's toolchain, run in groups with a
// fiber for each work item, so that barriers are real. A watched module also has every access
// checked (watch.h).
//
// Threads: build is safe; a loaded module may run on several threads at once.
#ifndef TENON_PLUGINS_SIM_KERNEL_MODULE_H_
#define TENON_PLUGINS_SIM_KERNEL_MODULE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/toolchain.h"
#include "tenon/cpp/status.hpp"

namespace tenon::sim {

struct KernelArg {
  enum class Kind : uint8_t { kBuffer, kValue, kLocal };
  Kind kind = Kind::kValue;
  void* data = nullptr;  // the memory or the value; null for local memory
  uint64_t size_bytes = 0;
  // For reports and to detect races:
  std::string name;            // "output 0"
  uint64_t place = 0;          // address in the device's memory; the same memory has the same place
  uint32_t element_bytes = 1;  // size of one access by the kernel; a power of two
  bool written = true;
};

struct Launch {
  tenon_opencl_run_t entry = nullptr;
  std::string title;  // for reports: "kernel `k_12` (softmax)"
  uint64_t global[3] = {1, 1, 1};
  uint64_t local[3] = {1, 1, 1};  // divides global
  std::vector<KernelArg> args;
};

class KernelModule {
 public:
  KernelModule() = default;
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;

  // OpenCL C. INVALID_ARGUMENT with the compiler's messages. watched: requires a toolchain with
  // TENON_TOOLCHAIN_WATCH.
  static Status build(const tenon_toolchain_api_t& toolchain, std::string_view text, bool watched,
                      std::string* code);
  // A whole unit, with what group.h wants to be put before the text.
  static Status build_unit(const tenon_toolchain_api_t& toolchain, std::string_view dialect,
                           std::string_view unit, bool watched, std::string* code);

  Status load(const tenon_toolchain_api_t& toolchain, std::string_view code);
  Status find(std::string_view kernel, tenon_opencl_run_t* out) const;
  // Runs all groups. INVALID_ARGUMENT for sizes that do not match. A kernel's error ends the
  // launch: OUT_OF_RANGE for an access out of bounds, INTERNAL for a race or a barrier that not all
  // items of a group reach. The message names kernel, item and buffer.
  Status run(const Launch& launch) const;
  bool watched() const { return watched_; }

 private:
  const tenon_toolchain_api_t* toolchain_ = nullptr;
  tenon_module_t* module_ = nullptr;
  tenon_opencl_variables_t variables_ = nullptr;
  bool watched_ = false;
};

}  // namespace tenon::sim
#endif
