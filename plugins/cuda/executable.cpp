// tenon.compile/1: kernelgen's CUDA C++ becomes PTX by the toolchain for that dialect, and the
// driver compiles the PTX for its GPU.
#include "device.h"
#include "runtime.h"
#include "tenon/abi/host.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/text_device.h"

namespace tenon::cuda {
namespace {

namespace kg = kernelgen;

constexpr uint32_t kGroup = 256;

Status toolchain(const tenon_toolchain_api_t** out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  if (registry == nullptr)
    return fail(TENON_FAILED_PRECONDITION, "cuda: this host has no registry");
  return registry->plugin_interface(registry->self, str("toolchain"), str(TENON_DIALECT_CUDA_CPP),
                                    str(TENON_TOOLCHAIN_ID), reinterpret_cast<const void**>(out));
}

Status load_module(const Driver& d, const std::string& ptx, CUmodule* out) {
  char log[2048] = "";
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  const CUresult result = d.module_load(out, ptx.c_str(), 2, options, values);
  if (result == kUnsupportedPtxVersion) {
    return fail(TENON_UNAVAILABLE,
                "cuda: the driver is too old for this code; update it, or compile for an older "
                "target (--target sm_80)");
  }
  return check(d, result, cat("loading code", log[0] != '\0' ? ": " : "", std::string_view(log)));
}

class Cuda final : public stream::TextDevice {
 public:
  Cuda() : stream::TextDevice(kDeviceTable) {}

  std::string_view name() const override { return "cuda"; }
  kg::DeviceRates rates() const override { return {1000, 10000, 5000}; }
  kg::Target target(std::string_view) const override { return kg::Target::cuda(kGroup); }

  bool runs(std::string_view made_for, std::string_view device) const override {
    return runs_on(made_for, device);
  }

  Status compile(std::string_view target, std::string_view text,
                 std::string* out_binary) const override {
    std::string full, diagnostics;
    TENON_TRY(full_target(target, &full));
    const tenon_toolchain_api_t* tools = nullptr;
    TENON_TRY(toolchain(&tools));
    auto options = sized<tenon_toolchain_options_t>();
    options.optimise = 3;
    const tenon_sink_t object = sink_to(out_binary), notes = sink_to(&diagnostics);
    return tools->build(tools->self, str(full), str(TENON_DIALECT_CUDA_CPP), str(text), &options,
                        &object, &notes);
  }

  Status load(tenon_device_t* d, const kg::DeviceProgram& program, std::string_view binary,
              std::string_view, std::unique_ptr<kg::LoadedText>* out) const override {
    auto& runtime = static_cast<Runtime&>(*stream::device_of(d)->runtime);
    const Driver& driver = runtime.driver();
    const stream::Current current(runtime);
    TENON_TRY(current.status());
    const ProcessGuard guard;
    auto module = std::make_unique<Module>(driver, runtime);
    TENON_TRY(load_module(driver, std::string(binary), &module->module));
    for (const kg::ProgramKernel& kernel : program.kernels) {
      CUfunction function = nullptr;
      TENON_TRY(check(driver,
                      driver.module_function(&function, module->module, kernel.entry.c_str()),
                      cat("finding kernel ", kernel.entry)));
      module->functions.push_back(function);
    }
    *out = std::move(module);
    return {};
  }
};

Cuda device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace tenon::cuda
