// CUDA as a runtime with streams: one primary context, which other libraries of the process share.
#ifndef TENON_PLUGINS_CUDA_RUNTIME_H_
#define TENON_PLUGINS_CUDA_RUNTIME_H_

#include <memory>
#include <vector>

#include "cuda_symbols.h"
#include "tenon/stream/runtime.h"

namespace tenon::cuda {

// Kernels of a loaded module, by their place in the program. Unloaded when no work uses it.
struct Module final : kernelgen::LoadedText {
  Module(const Driver& d, stream::Runtime& owner) : driver(d), runtime(owner) {}
  ~Module() override;

  const Driver& driver;
  stream::Runtime& runtime;
  CUmodule module = nullptr;
  std::vector<CUfunction> functions;
};

class Runtime final : public stream::Runtime {
 public:
  // pools: memory comes from a pool of our own, which keeps what is freed for the next allocation.
  static Status make(const Driver& driver, CUdevice device, bool pools,
                     std::unique_ptr<Runtime>* out);
  ~Runtime() override;

  const Driver& driver() const { return d_; }

  Status enter() override;
  void leave() override;
  Status stream_create(stream::StreamHandle* out) override;
  Status stream_destroy(stream::StreamHandle stream) override;
  Status stream_synchronize(stream::StreamHandle stream) override;
  Status stream_wait(stream::StreamHandle stream, stream::EventHandle event) override;
  Status event_create(bool timed, stream::EventHandle* out) override;
  void event_destroy(stream::EventHandle event) override;
  Status event_record(stream::EventHandle event, stream::StreamHandle stream) override;
  Status event_synchronize(stream::EventHandle event) override;
  Status event_elapsed(stream::EventHandle from, stream::EventHandle to, float* out_ms) override;
  Status alloc(uint64_t size_bytes, stream::Address* out) override;
  Status free(stream::Address address) override;
  Status alloc_pinned(uint64_t size_bytes, void** out) override;
  Status free_pinned(void* data) override;
  Status copy_in(stream::StreamHandle stream, stream::Address to, const void* from,
                 uint64_t bytes) override;
  Status copy_out(stream::StreamHandle stream, void* to, stream::Address from,
                  uint64_t bytes) override;
  Status copy_within(stream::StreamHandle stream, stream::Address to, stream::Address from,
                     uint64_t bytes) override;
  Status fill(stream::StreamHandle stream, stream::Address to, uint32_t pattern, uint32_t width,
              uint64_t count) override;
  Status launch(stream::StreamHandle stream, kernelgen::LoadedText& code,
                const stream::Launch& launch) override;
  Status check_memory(stream::Address address, uint64_t bytes) override;

 private:
  Runtime(const Driver& driver, CUdevice device) : d_(driver), device_(device) {}
  Status retain();
  Status start_pool();
  // Whether the address is memory of this context, and where its allocation ends; out_joins: memory
  // that was mapped there may go on behind that end.
  Status allocation_at(CUdeviceptr address, CUdeviceptr* out_end, bool* out_joins);
  CUresult alloc_from_pool(uint64_t size_bytes, CUdeviceptr* out);
  Status check(CUresult result, std::string_view doing) const {
    return cuda::check(d_, result, doing);
  }

  const Driver& d_;
  const CUdevice device_;
  CUcontext context_ = nullptr;
  // Where memory comes from the pool: allocations are work on a stream, so they have one.
  CUmemoryPool pool_ = nullptr;
  CUstream pool_stream_ = nullptr;
};

}  // namespace tenon::cuda
#endif
