// tenon.compile/1: kernelgen's OpenCL C becomes native code by Intel's offline compiler.
#include "device.h"
#include "ocloc.h"
#include "runtime.h"
#include "target.h"
#include "tenon/kernelgen/print/intel.h"
#include "tenon/stream/text_device.h"

namespace tenon::intel {
namespace {

namespace kg = kernelgen;

constexpr uint32_t kSubGroup = 16;

class Intel final : public stream::TextDevice {
 public:
  Intel() : stream::TextDevice(kDeviceTable) {}

  std::string_view name() const override { return "intel"; }
  kg::DeviceRates rates() const override { return {500, 5000, 8000}; }
  kg::Target target(std::string_view text) const override {
    const Architecture* a = architecture(text);
    kg::Target out = kg::Target::opencl(a != nullptr && a->fp64);
    out.warp = kSubGroup;
    return stream::within(out, limits(text));
  }
  std::string_view compiler(std::string_view) const override { return compiler_identity(); }

  bool runs(std::string_view made_for, std::string_view device) const override {
    const Architecture* a = architecture(made_for);
    return a != nullptr && a == architecture(device) &&
           stream::fits(limits(made_for), limits(device));
  }

  Status check_target(std::string_view text) const override {
    std::string full;
    return full_target(text, &full);
  }
  Status compile(std::string_view target, std::string_view text,
                 std::string* out_binary) const override {
    std::string full;
    TENON_TRY(full_target(target, &full));
    return compile_native(architecture(target)->name,
                          kg::intel_sub_groups(kSubGroup) + std::string(text), out_binary);
  }

  Status load(tenon_device_t* d, const kg::DeviceProgram& program,
              std::span<const std::string_view> binaries, std::string_view,
              std::unique_ptr<kg::LoadedText>* out) const override {
    return static_cast<Runtime&>(*stream::device_of(d)->runtime).load(binaries[0], program, out);
  }
};

Intel device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace tenon::intel
