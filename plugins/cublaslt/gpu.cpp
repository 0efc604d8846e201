#include "gpu.h"

#include <tenon/abi/host.h>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/process_guard.hpp>

#include <map>
#include <mutex>

namespace tenon::cublaslt {
namespace {

template <class Table>
Status find_table(const tenon_host_registry_t& registry, std::string_view id, const Table** out) {
  const void* table = nullptr;
  TENON_TRY(registry.plugin_interface(registry.self, str("device"), str("cuda"), str(id), &table));
  *out = static_cast<const Table*>(table);
  return {};
}

constexpr int kRelaxed = 2;  // of the modes of captures

// A little memory of a device, to ask the driver which one it is.
Status ordinal_of(const Library& l, const Tables& tables, tenon_device_t* device, int* out) {
  constexpr uint64_t kBytes = 256;
  tenon_buffer_t* buffer = nullptr;
  TENON_TRY(tables.device->alloc(tables.device->self, device, kBytes, &buffer));
  uint64_t address = 0;
  Status status = address_of(tables, device, buffer, 0, &address);
  if (status.ok())
    status = check_driver(l.pointer_attribute(out, kPointerDeviceOrdinal, address),
                          "asking for a pointer's device");
  (void)tables.device->free(tables.device->self, device, buffer);
  return status;
}

}  // namespace

Status find_tables(Tables* out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  if (registry == nullptr)
    return fail(TENON_UNIMPLEMENTED, "this host has no " TENON_HOST_REGISTRY_ID);
  TENON_TRY(find_table(*registry, TENON_DEVICE_ID, &out->device));
  return find_table(*registry, TENON_EXCHANGE_ID, &out->exchange);
}

Status address_of(const Tables& tables, tenon_device_t* device, const tenon_buffer_t* buffer,
                  uint64_t offset_bytes, uint64_t* out) {
  auto memory = sized<tenon_native_memory_t>();
  TENON_TRY(tables.exchange->export_memory(tables.exchange->self, device,
                                           const_cast<tenon_buffer_t*>(buffer), str("cuda.pointer"),
                                           &memory));
  *out = memory.handle + memory.offset_bytes + offset_bytes;
  return {};
}

Status Gpu::find(const Library& l, int ordinal, std::shared_ptr<Gpu>* out) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Gpu>> open;
  const std::lock_guard lock(mutex);
  *out = open[ordinal].lock();
  if (*out != nullptr) return {};
  std::shared_ptr<Gpu> made(new Gpu(l, ordinal));
  TENON_TRY(made->open());
  open[ordinal] = made;
  *out = std::move(made);
  return {};
}

namespace {

// Not let go of at the end of the process, when the driver may be gone.
struct Asked {
  std::mutex mutex;
  std::shared_ptr<Gpu> gpu;
  static Asked& last() {
    static Asked& instance = *new Asked;
    return instance;
  }
  std::shared_ptr<Gpu> exchange(std::shared_ptr<Gpu> with) {
    const std::lock_guard lock(mutex);
    std::swap(gpu, with);
    return with;
  }
};

}  // namespace

Status Gpu::of(const Library& l, const Tables& tables, tenon_device_t* device,
               std::shared_ptr<Gpu>* out) {
  const std::shared_ptr<Gpu> asked = Asked::last().exchange(nullptr);
  int ordinal = 0;
  TENON_TRY(ordinal_of(l, tables, device, &ordinal));
  return find(l, ordinal, out);
}

Status Gpu::to_ask(const Library& l, int ordinal, std::shared_ptr<Gpu>* out) {
  TENON_TRY(find(l, ordinal, out));
  (void)Asked::last().exchange(*out);
  return {};
}

Status Gpu::open() {
  const ProcessGuard guard;
  TENON_TRY(check_driver(l_.context_retain(&context_, ordinal_), "using the device's context"));
  const Current current(*this);
  TENON_TRY(current.status());
  return check(l_.create(&handle_), "starting the library");
}

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  if (handle_ != nullptr) {
    const Current current(*this);
    (void)l_.destroy(handle_);
  }
  (void)l_.context_release(ordinal_);
}

Gpu::Current::Current(const Gpu& gpu)
    : l_(gpu.l_),
      status_(check_driver(gpu.l_.context_push(gpu.context_), "making the device current")),
      mode_(kRelaxed) {
  if (!status_.ok()) return;
  status_ = check_driver(l_.capture_mode(&mode_), "letting other libraries record graphs");
  if (status_.ok()) return;
  if (mode_ != kRelaxed) (void)l_.capture_mode(&mode_);
  CUcontext popped = nullptr;
  (void)l_.context_pop(&popped);
}

Gpu::Current::~Current() {
  CUcontext popped = nullptr;
  if (!status_.ok()) return;
  (void)l_.capture_mode(&mode_);
  (void)l_.context_pop(&popped);
}

}  // namespace tenon::cublaslt
