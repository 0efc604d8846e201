// HIP as a runtime with streams. Streams, copies and launches are those of
// tenon/stream/driver_runtime.h; here are the device, memory and errors.
#ifndef TENON_PLUGINS_ROCM_RUNTIME_H_
#define TENON_PLUGINS_ROCM_RUNTIME_H_

#include <memory>

#include "hip_symbols.h"
#include "tenon/stream/driver_runtime.h"

namespace tenon::rocm {

class Runtime final : public stream::DriverRuntime<Driver> {
 public:
  // Memory comes from a pool of our own, which keeps what is freed, where the device has pools.
  static Status make(const Driver& driver, hipDevice_t device, std::unique_ptr<Runtime>* out);
  ~Runtime() override;

  Status enter() override;
  void leave() override;
  Status alloc(uint64_t size_bytes, stream::Address* out) override;
  Status free(stream::Address address) override;
  Status reaches(stream::Runtime& from, bool* out) override;
  Status copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime& from,
                     stream::Address address, uint64_t bytes) override;
  Status check_memory(stream::Address address, uint64_t bytes) override;

 protected:
  Status check(hipError_t result, std::string_view doing) const override {
    return rocm::check(d_, result, doing);
  }
  Status check_groups(const stream::Launch& launch) const override;
  Status load_module(const std::string& image, hipModule_t* out) const override;

 private:
  Runtime(const Driver& driver, hipDevice_t device)
      : DriverRuntime("rocm", driver), device_(device), pool_(driver) {}

  const hipDevice_t device_;
  stream::DriverPool<Driver> pool_;
};

}  // namespace tenon::rocm
#endif
