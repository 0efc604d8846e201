// CUDA as a runtime with streams: one primary context, which other libraries of the process share.
// Streams, copies and launches are those of tenon/stream/driver_runtime.h; here are the context,
// memory and errors.
#ifndef TENON_PLUGINS_CUDA_RUNTIME_H_
#define TENON_PLUGINS_CUDA_RUNTIME_H_

#include <memory>

#include "cuda_symbols.h"
#include "tenon/stream/driver_runtime.h"

namespace tenon::cuda {

class Runtime final : public stream::DriverRuntime<Driver> {
 public:
  // pools: memory comes from a pool of our own, which keeps what is freed for the next allocation.
  static Status make(const Driver& driver, CUdevice device, bool pools,
                     std::unique_ptr<Runtime>* out);
  ~Runtime() override;

  Status enter() override;
  void leave() override;
  Status alloc(uint64_t size_bytes, stream::Address* out) override;
  Status free(stream::Address address) override;
  Status reaches(stream::Runtime& from, bool* out) override;
  Status copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime& from,
                     stream::Address address, uint64_t bytes) override;
  Status check_memory(stream::Address address, uint64_t bytes) override;
  Status check_stream(stream::StreamHandle stream) override;

 protected:
  Status check(CUresult result, std::string_view doing) const override {
    return cuda::check(d_, result, doing);
  }
  Status check_groups(const stream::Launch& launch) const override;
  Status load_module(const std::string& ptx, CUmodule* out) const override;

 private:
  Runtime(const Driver& driver, CUdevice device)
      : DriverRuntime("cuda", driver), device_(device), pool_(driver) {}
  Status retain();
  void pop();
  // Whether the address is memory of this context, and where its allocation ends; out_joins: memory
  // that was mapped there may go on after that end.
  Status allocation_at(CUdeviceptr address, CUdeviceptr* out_end, bool* out_joins);
  const CUdevice device_;
  CUcontext context_ = nullptr;
  stream::DriverPool<Driver> pool_;
};

}  // namespace tenon::cuda
#endif
