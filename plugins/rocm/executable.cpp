// tenon.compile/1: kernelgen's HIP C++ becomes a code object by the toolchain for that dialect.
#include "device.h"
#include "runtime.h"
#include "tenon/abi/toolchain.h"
#include "tenon/stream/toolchain_device.h"

namespace tenon::rocm {
namespace {

namespace kg = kernelgen;

class Rocm final : public stream::ToolchainDevice {
 public:
  Rocm() : stream::ToolchainDevice(kDeviceTable, TENON_DIALECT_HIP_CPP) {}

  std::string_view name() const override { return "rocm"; }
  kg::DeviceRates rates() const override { return {1000, 10000, 8000}; }
  kg::Target target(std::string_view text) const override {
    return stream::within(kg::Target::hip(warp_of(text)), stream::limits_of(text, kLimits));
  }

  bool runs(std::string_view made_for, std::string_view device) const override {
    std::string a, b;
    return rocm::full_target(made_for, &a).ok() && rocm::full_target(device, &b).ok() && a == b &&
           stream::fits(stream::limits_of(made_for, kLimits), stream::limits_of(device, kLimits));
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
    return rocm::full_target(text, out);
  }
};

Rocm device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace tenon::rocm
