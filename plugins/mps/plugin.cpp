// Apple's GPUs, through Metal. Elsewhere there is never a device; the plugin says so, and makes
// packages with the text that Metal compiles.
#include "tenon/cpp/plugin.hpp"

#include <deque>

#include "objc.h"
#include "runtime.h"
#include "tenon/stream/group_limits.h"
#include "tenon/stream/machine.h"
#include "tenon/stream/queue.h"
#include "tenon/stream/text_device.h"

namespace tenon::mps {
namespace {

namespace kg = kernelgen;

constexpr std::string_view kPrefix = "mps ";
constexpr stream::GroupLimits kLimits = {1024, 32 << 10};  // of every GPU since the A11

// Versions of Metal's language, oldest first, with MTLLanguageVersion. Shuffles of 32 lanes came
// with the first.
struct Version {
  std::string_view name;
  uint64_t number;
};
constexpr Version kVersions[] = {
    {"metal2.4", 0x20004}, {"metal3.0", 0x30000}, {"metal3.1", 0x30001}, {"metal3.2", 0x30002}};

const Version* version(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  target = stream::without_limits(target);
  for (const Version& v : kVersions) {
    if (v.name == target) return &v;
  }
  return nullptr;
}

// Whether this system's Metal knows the version.
bool compiles(Id device, const Version& version) {
  const Owned text = string_of("kernel void nothing() {}");
  const Owned options(send<Id>(metal().get_class("MTLCompileOptions"), "new"));
  send<void>(options.get(), "setLanguageVersion:", version.number);
  Id error = nullptr;
  const Owned library(
      send<Id>(device, "newLibraryWithSource:options:error:", text.get(), options.get(), &error));
  return static_cast<bool>(library);
}

struct Apple {
  static constexpr std::string_view kName = "mps";
  struct Found : stream::FoundDevice {
    Id device = nullptr;  // kept for the process
  };

  static Status look(std::deque<Found>* out) {
    std::string why;
    if (library(&why) == nullptr) return fail(TENON_UNAVAILABLE, cat("mps: ", why));
    const Pool pool;
    const Owned all(metal().copy_all_devices());
    const auto count = send<uint64_t>(all.get(), "count");
    for (uint64_t i = 0; i < count; ++i)
      look_at(send<Id>(all.get(), "objectAtIndex:", i), static_cast<uint32_t>(i),
              &out->emplace_back());
    std::erase_if(*out, [](const Found& found) { return found.target.empty(); });
    if (!out->empty()) return {};
    return fail(TENON_UNAVAILABLE,
                count == 0 ? "mps: Metal finds no GPU"
                           : "mps: this system's Metal is older than 2.4, the oldest that works");
  }

  static void look_at(Id device, uint32_t ordinal, Found* out) {
    out->device = send<Id>(device, "retain");
    out->native_ordinal = ordinal;
    out->description = text_of(send<Id>(device, "name"));
    out->memory_bytes = send<uint64_t>(device, "recommendedMaxWorkingSetSize");
    const auto shared = send<uint64_t>(device, "maxThreadgroupMemoryLength");
    for (const Version& v : kVersions) {
      if (compiles(device, v)) out->target = cat(kPrefix, v.name);
    }
    if (!out->target.empty())
      out->target += stream::limits_text({kLimits.threads, static_cast<uint32_t>(shared)}, kLimits);
  }

  static Status make_runtime(const Found& found, std::unique_ptr<stream::Runtime>* out) {
    *out = std::make_unique<Runtime>(found.device);
    return {};
  }
};

const tenon_device_api_t kDeviceTable = stream::Machine<Apple>::table();

class Mps final : public stream::TextDevice {
 public:
  Mps() : stream::TextDevice(kDeviceTable) {}

  std::string_view name() const override { return "mps"; }
  kg::DeviceRates rates() const override { return {200, 2000, 10000}; }
  kg::Target target(std::string_view text) const override {
    return stream::within(kg::Target::metal(), stream::limits_of(text, kLimits));
  }

  Status check_target(std::string_view target) const override {
    if (version(target) != nullptr) return stream::check_limits("mps", target);
    std::string names;
    for (const Version& v : kVersions) names += cat(names.empty() ? "" : ", ", v.name);
    return fail(TENON_INVALID_ARGUMENT,
                cat("mps: the target ", quoted(target), " is none of ", names));
  }
  // A later Metal compiles the text of an earlier one.
  bool runs(std::string_view made_for, std::string_view device) const override {
    const Version *a = version(made_for), *b = version(device);
    return a != nullptr && b != nullptr && a->number <= b->number &&
           stream::fits(stream::limits_of(made_for, kLimits), stream::limits_of(device, kLimits));
  }

  // Metal compiles text when it is loaded. What it would refuse is refused here.
  Status compile(std::string_view, std::string_view text, std::string* out_binary) const override {
    if (text.find("[[buffer(31)]]") != std::string_view::npos)
      return fail(TENON_UNIMPLEMENTED,
                  "mps: a kernel of this model needs more than the 31 arguments that Metal allows");
    out_binary->assign(text);
    return {};
  }
  Status load(tenon_device_t* d, const kg::DeviceProgram& program,
              std::span<const std::string_view>, std::string_view text,
              std::unique_ptr<kg::LoadedText>* out) const override {
    // Every version compiles what the first one does.
    auto& runtime = static_cast<Runtime&>(*stream::device_of(d)->runtime);
    return runtime.load(text, kVersions[0].number, program, out);
  }
};

// A handle is an MTLBuffer, which has a length of its own, so places beyond it are refused.
constexpr stream::ExchangeKinds kKinds = {"mps.buffer"};
const tenon_exchange_api_t kExchangeTable = stream::exchange_table(&kKinds);

Mps device;
const tenon_compile_api_t kCompileTable = device.table();

constexpr tenon_interface_t kInterfaces[] = {
    offer(TENON_DEVICE_ID, kDeviceTable),
    offer(TENON_QUEUE_ID, stream::kQueueTable),
    offer(TENON_COMPILE_ID, kCompileTable),
    offer(TENON_EXCHANGE_ID, kExchangeTable),
};

}  // namespace
}  // namespace tenon::mps

TENON_PLUGIN("mps", "0.1.0", tenon::mps::kInterfaces)
