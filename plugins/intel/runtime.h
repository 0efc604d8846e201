// Level Zero as a runtime with streams: a stream is an immediate command list.
#ifndef TENON_PLUGINS_INTEL_RUNTIME_H_
#define TENON_PLUGINS_INTEL_RUNTIME_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/stream/kept_memory.h"
#include "tenon/stream/runtime.h"
#include "ze_symbols.h"

namespace tenon::intel {

struct Place {
  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
  uint64_t timer_ns = 1;  // of one tick
  uint32_t timer_bits = 64;
  uint64_t memory_bytes = 0;
  bool integrated = false;  // its memory is the host's
};

// One for all devices of a driver: memory of another context is none of a device's, even where the
// two reach each other.
struct Context {
  Context(const Driver& d, ze_context_handle_t made) : driver(d), handle(made) {}
  ~Context();
  Context(const Context&) = delete;
  // What the open ones of a device keep of its memory.
  std::shared_ptr<stream::KeptTogether> kept_of(const Place& place);
  // Gives back what is kept of all devices; whether that was anything.
  bool give_back();

  const Driver& driver;
  const ze_context_handle_t handle;

 private:
  std::mutex mutex_;
  std::map<ze_device_handle_t, std::shared_ptr<stream::KeptTogether>> kept_;
};

class Runtime;

// Kernels of a loaded module, by their place in the program. Arguments belong to a kernel until it
// is appended, so one thread at a time starts one.
struct Module final : kernelgen::LoadedText {
  Module(const Driver& d, ze_module_handle_t loaded) : driver(d), module(loaded) {}
  ~Module() override;

  struct Kernel {
    ze_kernel_handle_t handle = nullptr;
    uint32_t arguments = 0;
  };
  const Driver& driver;
  ze_module_handle_t module;
  std::vector<Kernel> kernels;
  std::mutex mutex;
};

class Runtime final : public stream::Runtime {
 public:
  // Device memory that is freed is kept for the next allocation: Level Zero has no pools.
  static Status make(const Driver& driver, const Place& place, std::unique_ptr<Runtime>* out);

  // Loads native code for the kernels of a program.
  Status load(std::string_view binary, const kernelgen::DeviceProgram& program,
              std::unique_ptr<kernelgen::LoadedText>* out);

  Status enter() override { return {}; }  // handles name their device
  void leave() override {}
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
  Status reaches(stream::Runtime& from, bool* out) override;
  Status copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime& from,
                     stream::Address address, uint64_t bytes) override;
  Status fill(stream::StreamHandle stream, stream::Address to, uint32_t pattern, uint32_t width,
              uint64_t count) override;
  Status launch(stream::StreamHandle stream, kernelgen::LoadedText& code,
                const stream::Launch& launch) override;
  Status check_memory(stream::Address address, uint64_t bytes) override;

 private:
  Runtime(const Driver& driver, const Place& place, std::shared_ptr<Context> context);
  void settle(stream::StreamHandle stream);
  Status synchronize_once(stream::StreamHandle stream);
  // Runs what may be short of memory, and runs it again if kept memory could be given back.
  template <class Take>
  Status taking_memory(Take take) {
    Status status = take();
    if (status.code() == TENON_RESOURCE_EXHAUSTED && shared_->give_back()) status = take();
    return status;
  }
  // Calls `put` with the list, which no other thread uses meanwhile. Commands of a list may run at
  // once, so each is followed by a barrier.
  template <class Put>
  Status append(stream::StreamHandle stream, std::string_view doing, Put put);
  Status copy(stream::StreamHandle stream, void* to, const void* from, uint64_t bytes,
              std::string_view doing);

  const Driver& d_;
  const Place place_;
  const std::shared_ptr<Context> shared_;
  const ze_context_handle_t context_;
  stream::KeptMemory memory_;
};

}  // namespace tenon::intel
#endif
