// tenon.compile/1: kernelgen's CUDA C++ becomes PTX by the toolchain for that dialect, and the
// driver compiles the PTX for its GPU.
#include "device.h"
#include "runtime.h"
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
    return cuda::full_target(text, out);
  }
};

Cuda device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace tenon::cuda
