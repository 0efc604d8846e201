// Metal as a runtime with streams. A stream is a command queue, with a command buffer that is
// filled until an event is recorded; an event is a shared event and the command buffer that signals
// it. Memory is shared with the host: an address is that of the host.
#ifndef TENON_PLUGINS_MPS_RUNTIME_H_
#define TENON_PLUGINS_MPS_RUNTIME_H_

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "objc.h"
#include "tenon/stream/runtime.h"

namespace tenon::mps {

struct Stream;

// Kernels of a program, by their place in it.
struct Module final : kernelgen::LoadedText {
  struct Kernel {
    Owned pipeline;
    uint32_t buffers = 0, extents = 0;
    bool scratch = false;
  };
  std::vector<Kernel> kernels;
};

class Runtime final : public stream::Runtime {
 public:
  explicit Runtime(Id device) : device_(Owned::retain(device)) {}

  // Compiles Metal's text. version: of the language, 0x20004 for 2.4.
  Status load(std::string_view text, uint64_t version, const kernelgen::DeviceProgram& program,
              std::unique_ptr<kernelgen::LoadedText>* out);

  Status enter() override;
  void leave() override;
  Status stream_create(stream::StreamHandle* out) override;
  Status stream_destroy(stream::StreamHandle stream) override;
  Status stream_synchronize(stream::StreamHandle stream) override;
  Status stream_wait(stream::StreamHandle stream, stream::EventHandle event) override;
  Status event_create(bool timed, stream::EventHandle* out) override;
  void event_destroy(stream::EventHandle event) override;
  void event_idle(stream::EventHandle event) override;
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
  // A handle is an MTLBuffer of this GPU that the host can read.
  Status memory_of(uint64_t handle, stream::Address* out) override;
  void memory_leave(stream::Address address) override;
  Status memory_handle(stream::Address address, uint64_t* out_handle,
                       uint64_t* out_offset_bytes) override;

 private:
  struct Memory {
    Owned buffer;
    uint64_t size_bytes;
    uint32_t users = 1;  // who allocated it, and who imported it
  };
  // A buffer of Metal's, which stays as long as the caller holds it, and the place in it.
  struct Place {
    Owned buffer;
    uint64_t offset = 0;
  };
  // Lets go of the memory around an address; false if it is none of this device.
  bool let_go(stream::Address address);
  // Empty if the bytes are of no memory of this device.
  Place find(stream::Address address, uint64_t bytes);
  Status place(stream::Address address, uint64_t bytes, std::string_view doing, Place* out);
  Status copy(Stream& stream, const Place& to, const Place& from, uint64_t bytes);
  Status pipeline(Id library, const std::string& name, Module::Kernel* out);

  const Owned device_;
  std::mutex mutex_;
  std::map<stream::Address, Memory> memory_;
};

}  // namespace tenon::mps
#endif
