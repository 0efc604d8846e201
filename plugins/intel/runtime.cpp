#include "runtime.h"

#include <map>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/device.h"

namespace tenon::intel {
namespace {

// An event has a pool of its own. It is reset by the host when it is recorded again, which the
// stream's users do only once nothing waits for it any more (stream::NativeWait).
struct Event {
  ze_event_pool_handle_t pool = nullptr;
  ze_event_handle_t event = nullptr;
  uint64_t* ticks = nullptr;  // host memory, null unless timed
};

// One thread at a time may append to a list.
struct Stream {
  ze_command_list_handle_t list = nullptr;
  std::mutex mutex;
};

Stream& stream_of(stream::StreamHandle s) {
  return *static_cast<Stream*>(s);
}
Event& event_of(stream::EventHandle e) {
  return *static_cast<Event*>(e);
}
void* pointer(stream::Address a) {
  return reinterpret_cast<void*>(a);
}

}  // namespace

Module::~Module() {
  for (const Kernel& k : kernels) (void)driver.zeKernelDestroy(k.handle);
  if (module != nullptr) (void)driver.zeModuleDestroy(module);
}

// ---- Contexts ----

Context::~Context() {
  (void)driver.zeContextDestroy(handle);
}

// Memory of an integrated GPU is that of all programs, and its allocations are those of the host.
std::shared_ptr<stream::KeptTogether> Context::kept_of(const Place& place) {
  constexpr uint64_t kPartOfTheHost = 32;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<stream::KeptTogether>& kept = kept_[place.device];
  if (kept == nullptr)
    kept = std::make_shared<stream::KeptTogether>(
        place.memory_bytes, place.integrated ? place.memory_bytes / kPartOfTheHost : UINT64_MAX);
  return kept;
}

bool Context::give_back() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& [device, kept] : kept_) any = kept->give_back() || any;
  return any;
}

namespace {

// That of the driver, for as long as a device of it is open.
Status context_of(const Driver& d, ze_driver_handle_t driver, std::shared_ptr<Context>* out) {
  static std::mutex mutex;
  static std::map<ze_driver_handle_t, std::weak_ptr<Context>> contexts;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Context>& known = contexts[driver];
  *out = known.lock();
  if (*out != nullptr) return {};
  const ProcessGuard guard;  // a context may start threads
  ze_context_desc_t wanted = {};
  wanted.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC;
  ze_context_handle_t made = nullptr;
  TENON_TRY(check(d.zeContextCreate(driver, &wanted, &made), "making a context"));
  *out = std::make_shared<Context>(d, made);
  known = *out;
  return {};
}

Status take_memory(const Driver& d, ze_context_handle_t context, ze_device_handle_t device,
                   uint64_t size_bytes, stream::Address* out) {
  ze_device_mem_alloc_desc_t wanted = {};
  wanted.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC;
  void* data = nullptr;
  TENON_TRY(check(
      d.zeMemAllocDevice(context, &wanted, size_bytes, stream::kAlignmentBytes, device, &data),
      cat("allocating ", size_bytes, " bytes")));
  *out = reinterpret_cast<stream::Address>(data);
  return {};
}

}  // namespace

Runtime::Runtime(const Driver& driver, const Place& place, std::shared_ptr<Context> context)
    : d_(driver),
      place_(place),
      shared_(std::move(context)),
      context_(shared_->handle),
      memory_(
          shared_->kept_of(place_),
          [this](uint64_t bytes, stream::Address* out) {
            return take_memory(d_, context_, place_.device, bytes, out);
          },
          [this](stream::Address address) {
            return check(d_.zeMemFree(context_, pointer(address)), "freeing memory");
          }) {}

Status Runtime::make(const Driver& driver, const Place& place, std::unique_ptr<Runtime>* out) {
  std::shared_ptr<Context> context;
  TENON_TRY(context_of(driver, place.driver, &context));
  out->reset(new Runtime(driver, place, std::move(context)));
  return {};
}

// ---- Streams and events ----

template <class Put>
Status Runtime::append(stream::StreamHandle stream, std::string_view doing, Put put) {
  Stream& s = stream_of(stream);
  Status kept;
  {
    const std::lock_guard lock(s.mutex);
    TENON_TRY(taking_memory([&] { return check(put(s.list), doing); }));
    kept = taking_memory([&] {
      return check(d_.zeCommandListAppendBarrier(s.list, nullptr, 0, nullptr),
                   "keeping commands in order");
    });
  }
  if (!kept.ok()) settle(stream);
  return kept;
}

// A caller that gets a failure frees the memory at once, and Level Zero does not wait for what uses
// it. So the stream is waited for once more.
void Runtime::settle(stream::StreamHandle stream) {
  thread_local bool settling = false;
  if (settling) return;
  settling = true;
  (void)synchronize_once(stream);
  settling = false;
}

Status Runtime::stream_create(stream::StreamHandle* out) {
  const ProcessGuard guard;  // a list may start a thread
  ze_command_queue_desc_t wanted = {};
  wanted.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  wanted.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  auto made = std::make_unique<Stream>();
  TENON_TRY(taking_memory([&] {
    return check(d_.zeCommandListCreateImmediate(context_, place_.device, &wanted, &made->list),
                 "making a command list");
  }));
  *out = made.release();
  return {};
}
Status Runtime::stream_destroy(stream::StreamHandle stream) {
  const std::unique_ptr<Stream> s(&stream_of(stream));
  return check(d_.zeCommandListDestroy(s->list), "destroying a command list");
}
Status Runtime::stream_synchronize(stream::StreamHandle stream) {
  Status status = synchronize_once(stream);
  if (!status.ok()) settle(stream);
  return status;
}
Status Runtime::synchronize_once(stream::StreamHandle stream) {
  stream::EventHandle end = nullptr;
  TENON_TRY(event_create(false, &end));
  Status status = event_record(end, stream);
  if (status.ok()) status = event_synchronize(end);
  event_destroy(end);
  return status;
}
Status Runtime::stream_wait(stream::StreamHandle stream, stream::EventHandle event) {
  return append(stream, "waiting for an event", [&](ze_command_list_handle_t list) {
    return d_.zeCommandListAppendWaitOnEvents(list, 1, &event_of(event).event);
  });
}

Status Runtime::event_create(bool timed, stream::EventHandle* out) {
  auto made = std::make_unique<Event>();
  ze_event_pool_desc_t pool = {};
  pool.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC;
  pool.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  pool.count = 1;
  ze_device_handle_t device = place_.device;
  TENON_TRY(taking_memory([&] {
    return check(d_.zeEventPoolCreate(context_, &pool, 1, &device, &made->pool), "making an event");
  }));
  ze_event_desc_t event = {};
  event.stype = ZE_STRUCTURE_TYPE_EVENT_DESC;
  event.signal = event.wait = ZE_EVENT_SCOPE_FLAG_HOST;
  Status status = taking_memory(
      [&] { return check(d_.zeEventCreate(made->pool, &event, &made->event), "making an event"); });
  if (status.ok() && timed) {
    void* ticks = nullptr;
    status = alloc_pinned(sizeof(uint64_t), &ticks);
    made->ticks = static_cast<uint64_t*>(ticks);
  }
  if (!status.ok()) {
    event_destroy(made.release());
    return status;
  }
  *out = made.release();
  return {};
}
void Runtime::event_destroy(stream::EventHandle event) {
  const std::unique_ptr<Event> e(&event_of(event));
  if (e->event != nullptr) (void)d_.zeEventDestroy(e->event);
  if (e->pool != nullptr) (void)d_.zeEventPoolDestroy(e->pool);
  if (e->ticks != nullptr) (void)free_pinned(e->ticks);
}
Status Runtime::event_record(stream::EventHandle event, stream::StreamHandle stream) {
  const Event& e = event_of(event);
  TENON_TRY(check(d_.zeEventHostReset(e.event), "recording an event"));
  if (e.ticks != nullptr)
    TENON_TRY(append(stream, "recording a time", [&](ze_command_list_handle_t list) {
      return d_.zeCommandListAppendWriteGlobalTimestamp(list, e.ticks, nullptr, 0, nullptr);
    }));
  return append(stream, "recording an event", [&](ze_command_list_handle_t list) {
    return d_.zeCommandListAppendSignalEvent(list, e.event);
  });
}
Status Runtime::event_synchronize(stream::EventHandle event) {
  return check(d_.zeEventHostSynchronize(event_of(event).event, UINT64_MAX),
               "waiting for work on the device");
}
Status Runtime::event_elapsed(stream::EventHandle from, stream::EventHandle to, float* out_ms) {
  // The counter has so many bits and wraps.
  const uint32_t bits = place_.timer_bits;
  const uint64_t mask = bits == 0 || bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  const uint64_t ticks = (*event_of(to).ticks - *event_of(from).ticks) & mask;
  *out_ms =
      static_cast<float>(static_cast<double>(ticks) * static_cast<double>(place_.timer_ns) * 1e-6);
  return {};
}

// ---- Memory ----

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  return memory_.alloc(size_bytes, out);
}
Status Runtime::free(stream::Address address) {
  return memory_.free(address);
}
Status Runtime::alloc_pinned(uint64_t size_bytes, void** out) {
  ze_host_mem_alloc_desc_t wanted = {};
  wanted.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC;
  return taking_memory([&] {
    return check(d_.zeMemAllocHost(context_, &wanted, size_bytes, stream::kAlignmentBytes, out),
                 cat("allocating ", size_bytes, " bytes of pinned memory"));
  });
}
Status Runtime::free_pinned(void* data) {
  return check(d_.zeMemFree(context_, data), "freeing pinned memory");
}

Status Runtime::copy(stream::StreamHandle stream, void* to, const void* from, uint64_t bytes,
                     std::string_view doing) {
  return append(stream, doing, [&](ze_command_list_handle_t list) {
    return d_.zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr);
  });
}
Status Runtime::copy_in(stream::StreamHandle stream, stream::Address to, const void* from,
                        uint64_t bytes) {
  return copy(stream, pointer(to), from, bytes, "copying to the device");
}
Status Runtime::copy_out(stream::StreamHandle stream, void* to, stream::Address from,
                         uint64_t bytes) {
  return copy(stream, to, pointer(from), bytes, "copying from the device");
}
Status Runtime::copy_within(stream::StreamHandle stream, stream::Address to, stream::Address from,
                            uint64_t bytes) {
  return copy(stream, pointer(to), pointer(from), bytes, "copying on the device");
}
// Devices of one driver share a context, so an address of one is the same to another that can
// access it.
Status Runtime::reaches(stream::Runtime& from, bool* out) {
  auto& other = static_cast<Runtime&>(from);
  ze_bool_t can = 0;
  *out = false;
  if (context_ != other.context_) return {};
  TENON_TRY(check(d_.zeDeviceCanAccessPeer(place_.device, other.place_.device, &can),
                  "asking whether the GPU reaches another one"));
  *out = can != 0;
  return {};
}
Status Runtime::copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime&,
                            stream::Address address, uint64_t bytes) {
  return copy(stream, pointer(to), pointer(address), bytes, "copying from another GPU");
}
Status Runtime::fill(stream::StreamHandle stream, stream::Address to, uint32_t pattern,
                     uint32_t width, uint64_t count) {
  return append(stream, "filling memory", [&](ze_command_list_handle_t list) {
    return d_.zeCommandListAppendMemoryFill(list, pointer(to), &pattern, width, width * count,
                                            nullptr, 0, nullptr);
  });
}

Status Runtime::check_memory(stream::Address address, uint64_t bytes) {
  ze_memory_allocation_properties_t p = {};
  p.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ze_device_handle_t device = nullptr;
  TENON_TRY(check(d_.zeMemGetAllocProperties(context_, pointer(address), &p, &device),
                  "asking for a pointer's allocation"));
  if (p.type != ZE_MEMORY_TYPE_DEVICE && p.type != ZE_MEMORY_TYPE_SHARED)
    return fail(TENON_INVALID_ARGUMENT, "intel: the pointer is not one of device memory");
  if (device != place_.device)
    return fail(TENON_INVALID_ARGUMENT, "intel: the memory is of another device");
  void* begin = nullptr;
  size_t size = 0;
  TENON_TRY(check(d_.zeMemGetAddressRange(context_, pointer(address), &begin, &size),
                  "asking for a pointer's allocation"));
  const uint64_t left = reinterpret_cast<stream::Address>(begin) + size - address;
  if (bytes > left)
    return fail(TENON_OUT_OF_RANGE, cat("intel: the allocation ends ", left,
                                        " bytes after the pointer, before ", bytes));
  return {};
}

// ---- Kernels ----

Status Runtime::load(std::string_view binary, const kernelgen::DeviceProgram& program,
                     std::unique_ptr<kernelgen::LoadedText>* out) {
  const ProcessGuard guard;
  ze_module_desc_t wanted = {};
  wanted.stype = ZE_STRUCTURE_TYPE_MODULE_DESC;
  wanted.format = ZE_MODULE_FORMAT_NATIVE;
  wanted.inputSize = binary.size();
  wanted.pInputModule = reinterpret_cast<const uint8_t*>(binary.data());
  ze_module_handle_t module = nullptr;
  TENON_TRY(taking_memory([&] {
    return check(d_.zeModuleCreate(context_, place_.device, &wanted, &module, nullptr),
                 "loading code");
  }));
  auto loaded = std::make_unique<Module>(d_, module);
  for (const kernelgen::ProgramKernel& kernel : program.kernels) {
    ze_kernel_desc_t named = {};
    named.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC;
    named.pKernelName = kernel.entry.c_str();
    Module::Kernel made;
    TENON_TRY(taking_memory([&] {
      return check(d_.zeKernelCreate(module, &named, &made.handle),
                   cat("finding kernel ", kernel.entry));
    }));
    loaded->kernels.push_back(made);
    ze_kernel_properties_t p = {};
    p.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES;
    TENON_TRY(check(d_.zeKernelGetProperties(made.handle, &p),
                    cat("asking for the arguments of ", kernel.entry)));
    loaded->kernels.back().arguments = p.numKernelArgs;
  }
  *out = std::move(loaded);
  return {};
}

Status Runtime::launch(stream::StreamHandle stream, kernelgen::LoadedText& code,
                       const stream::Launch& launch) {
  if (launch.groups > UINT32_MAX)
    return fail(TENON_OUT_OF_RANGE, cat("intel: ", launch.name, " needs ", launch.groups,
                                        " groups, more than ", UINT32_MAX));
  auto& module = static_cast<Module&>(code);
  const Module::Kernel& kernel = module.kernels[launch.kernel];
  const std::string doing = cat("starting ", launch.name);
  const std::lock_guard lock(module.mutex);
  TENON_TRY(check(d_.zeKernelSetGroupSize(kernel.handle, launch.group, 1, 1), doing));
  for (uint32_t i = 0; i < kernel.arguments && i < launch.arguments.size(); ++i)
    TENON_TRY(check(d_.zeKernelSetArgumentValue(kernel.handle, i, sizeof launch.arguments[i],
                                                &launch.arguments[i]),
                    doing));
  const ze_group_count_t groups = {static_cast<uint32_t>(launch.groups), 1, 1};
  return append(stream, doing, [&](ze_command_list_handle_t list) {
    return d_.zeCommandListAppendLaunchKernel(list, kernel.handle, &groups, nullptr, 0, nullptr);
  });
}

}  // namespace tenon::intel
