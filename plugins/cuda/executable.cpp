// tenon.compile/1: kernelgen's CUDA C++ becomes PTX by the toolchain for that dialect, or by NVRTC,
// and the driver compiles the PTX for its GPU.
#include "device.h"
#include "nvrtc.h"
#include "runtime.h"
#include "target.h"
#include "tenon/abi/toolchain.h"
#include "tenon/stream/toolchain_device.h"

namespace tenon::cuda {
namespace {

namespace kg = kernelgen;

class Cuda final : public stream::ToolchainDevice {
 public:
  Cuda() : stream::ToolchainDevice(kDeviceTable, TENON_DIALECT_CUDA_CPP) {}

  std::string_view name() const override { return "cuda"; }
  kg::DeviceRates rates() const override { return {1000, 10000, 5000}; }
  kg::Target target(std::string_view text) const override {
    return stream::within(kg::Target::cuda(), stream::limits_of(text, kLimits));
  }

  std::string_view compiler(std::string_view target) const override {
    const Nvrtc* by_nvrtc = nullptr;
    std::string architecture;
    if (!compiler_of(target, &by_nvrtc, &architecture).ok()) return {};  // compile says why
    return by_nvrtc != nullptr ? by_nvrtc->identity : ToolchainDevice::compiler(target);
  }
  Status check_target(std::string_view target) const override {
    const Nvrtc* by_nvrtc = nullptr;
    std::string architecture;
    return compiler_of(target, &by_nvrtc, &architecture);
  }
  Status compile(std::string_view target, std::string_view text,
                 std::string* out_binary) const override {
    const Nvrtc* by_nvrtc = nullptr;
    std::string architecture;
    TENON_TRY(compiler_of(target, &by_nvrtc, &architecture));
    return by_nvrtc != nullptr ? compile_by_nvrtc(*by_nvrtc, architecture, text, out_binary)
                               : ToolchainDevice::compile(target, text, out_binary);
  }

  bool runs(std::string_view made_for, std::string_view device) const override {
    return runs_on(made_for, device);
  }

  Status load(tenon_device_t* d, const kg::DeviceProgram& program,
              std::span<const std::string_view> binaries, std::string_view,
              std::unique_ptr<kg::LoadedText>* out) const override {
    auto& runtime = static_cast<Runtime&>(*stream::device_of(d)->runtime);
    const stream::Current current(runtime);
    TENON_TRY(current.status());
    return runtime.load(binaries, program, out);
  }

 private:
  Status full_target(std::string_view text, std::string* out) const override {
    const Nvrtc* by_nvrtc = nullptr;
    TENON_TRY(compiler_of(text, &by_nvrtc, out));
    *out = cat("cuda ", *out);
    return {};
  }
};

Cuda device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace tenon::cuda
