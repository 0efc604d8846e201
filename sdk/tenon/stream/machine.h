// The devices of one vendor in this machine: looked for once, listed, and opened on streams.
//
// A vendor gives a type with
//   kName         the plugin's name, which is the kind of its devices and the prefix of reasons
//   Found         a FoundDevice, and what the vendor needs to open it
//   look          Status look(std::deque<Found>* out): the devices that code can be made for. Fails
//                 with the reason why there are none or no more; those in *out can be used all the
//                 same.
//   make_runtime  Status make_runtime(const Found& found, std::unique_ptr<Runtime>* out)
//
// Users: plugins/cuda, plugins/intel, plugins/mps, plugins/rocm.
#ifndef TENON_STREAM_MACHINE_H_
#define TENON_STREAM_MACHINE_H_

#include <deque>
#include <memory>
#include <string>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/timeline.hpp"
#include "tenon/stream/device.h"

namespace tenon::stream {

struct FoundDevice {
  uint64_t memory_bytes = 0;
  std::string description, target;
  std::string uuid;             // uuid_text
  uint32_t native_ordinal = 0;  // the vendor's number: those left out count
};

template <class Vendor>
class Machine {
 public:
  static tenon_device_api_t table() {
    return device_table(entry<&Machine::count>, entry<&Machine::info>, entry<&Machine::open>);
  }

 private:
  using Found = typename Vendor::Found;

  static const Machine& get() {
    static const Machine machine = [] {
      Machine made;
      made.fault_ = fault_of(Vendor::look(&made.devices_).code());
      return made;
    }();
    return machine;
  }

  static Status at(uint32_t ordinal, const Found** out) {
    const Machine& m = get();
    if (ordinal < m.devices_.size()) {
      *out = &m.devices_[ordinal];
      return {};
    }
    TENON_TRY(m.fault_.tell());
    return fail(TENON_OUT_OF_RANGE,
                cat(Vendor::kName, ": there are ", m.devices_.size(), " devices"));
  }

  static Status count(void*, uint32_t* out) {
    *out = static_cast<uint32_t>(get().devices_.size());
    return {};
  }

  static Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
    const Found* f = nullptr;
    TENON_TRY(at(ordinal, &f));
    tenon_device_info_t made = {};
    made.threading = TENON_THREADING_FREE;
    made.kind = str(Vendor::kName);
    made.description = str(f->description);
    made.target = str(f->target);
    made.memory_bytes = f->memory_bytes;
    made.alignment_bytes = kAlignmentBytes;
    made.copy_gigabytes_per_second = 20;
    made.copy_latency_ns = 10000;
    made.uuid = str(f->uuid);
    made.flags = TENON_DEVICE_NUMBERED;
    made.native_ordinal = f->native_ordinal;
    return give_record(out, made);
  }

  static Status open(void*, uint32_t ordinal, tenon_device_t** out) {
    const Found* f = nullptr;
    TENON_TRY(at(ordinal, &f));
    std::unique_ptr<Runtime> runtime;
    TENON_TRY(Vendor::make_runtime(*f, &runtime));
    auto device = std::make_unique<Device>();
    device->name = Vendor::kName;
    device->memory_bytes = f->memory_bytes;
    device->runtime = std::move(runtime);
    const Current current(*device->runtime);
    TENON_TRY(current.status());
    TENON_TRY(start_device(*device));
    *out = reinterpret_cast<tenon_device_t*>(device.release());
    return {};
  }

  std::deque<Found> devices_;
  Fault fault_;  // why there are no more
};

}  // namespace tenon::stream
#endif
