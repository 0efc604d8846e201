// A vendor's runtime, as a device on streams needs it: memory with addresses, in-order streams,
// events, and kernels that start on a stream. CUDA and HIP have these calls under such names.
//
// Each slot calls the vendor's function and turns its error into a Status with a reason. Handles
// are the vendor's own; 0 is none. All calls come between enter() and leave() of the same thread.
// Threads: safe.
//
// Users: plugins/cuda, plugins/intel, plugins/mps, plugins/rocm.
#ifndef TENON_STREAM_RUNTIME_H_
#define TENON_STREAM_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/device/text_executable.h"

namespace tenon::stream {

using StreamHandle = void*;
using EventHandle = void*;
using Address = uint64_t;

// One start of a kernel of loaded code. Every argument has eight bytes; surplus ones are ignored.
struct Launch {
  uint32_t kernel = 0;  // of DeviceProgram::kernels
  std::string_view name;
  std::span<uint64_t> arguments;
  uint64_t groups = 0;
  uint32_t group = 0;
};

class Graph;
using GraphRef = std::shared_ptr<Graph>;
class Steady;

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Makes the device current for this thread, and what was current before current again. Nested
  // pairs are allowed.
  virtual Status enter() = 0;
  virtual void leave() = 0;

  virtual Status stream_create(StreamHandle* out) = 0;
  virtual Status stream_destroy(StreamHandle stream) = 0;
  virtual Status stream_synchronize(StreamHandle stream) = 0;
  // Work that is submitted to the stream from now on waits for the event.
  virtual Status stream_wait(StreamHandle stream, EventHandle event) = 0;

  // timed: the event has a time; else it costs less.
  virtual Status event_create(bool timed, EventHandle* out) = 0;
  virtual void event_destroy(EventHandle event) = 0;
  // The event is not used until it is recorded again: what it holds of its last work may go.
  virtual void event_idle(EventHandle) {}
  virtual Status event_record(EventHandle event, StreamHandle stream) = 0;
  // Returns when the event has happened, or with the error of work before it.
  virtual Status event_synchronize(EventHandle event) = 0;
  // Whether it has happened, at once; one that was never recorded has. Fails with the error of work
  // before it, and for what is not an event; UNAVAILABLE for one that was recorded into a graph,
  // which happens only there. For runtimes that exchange events.
  virtual Status event_query(EventHandle, bool* out) {
    (void)out;
    return TENON_UNIMPLEMENTED;  // not called for a device without a kind of events
  }
  virtual Status event_elapsed(EventHandle from, EventHandle to, float* out_ms) = 0;

  // size_bytes is not 0. RESOURCE_EXHAUSTED if memory is short.
  virtual Status alloc(uint64_t size_bytes, Address* out) = 0;
  virtual Status free(Address address) = 0;
  virtual Status alloc_pinned(uint64_t size_bytes, void** out) = 0;
  virtual Status free_pinned(void* data) = 0;

  virtual Status copy_in(StreamHandle stream, Address to, const void* from, uint64_t bytes) = 0;
  virtual Status copy_out(StreamHandle stream, void* to, Address from, uint64_t bytes) = 0;
  virtual Status copy_within(StreamHandle stream, Address to, Address from, uint64_t bytes) = 0;
  // Whether copy_across can read memory of `from`, another device of this vendor, without the host.
  virtual Status reaches(Runtime&, bool* out) {
    *out = false;
    return {};
  }
  // Reads `from` where it is; both devices stay open until it is done.
  virtual Status copy_across(StreamHandle, Address, Runtime& from, Address, uint64_t) {
    (void)from;
    return TENON_UNIMPLEMENTED;  // not called for a device that reaches none
  }
  // width: 1, 2 or 4 bytes, to which the address is aligned.
  virtual Status fill(StreamHandle stream, Address to, uint32_t pattern, uint32_t width,
                      uint64_t count) = 0;

  virtual Status launch(StreamHandle stream, kernelgen::LoadedText& code, const Launch& launch) = 0;

  // Where the runs of a program are noted, to find those that repeat (steady.h); null: this runtime
  // records no graphs.
  virtual Steady* steady(kernelgen::LoadedText&) { return nullptr; }

  // Whether these bytes are memory of this device: INVALID_ARGUMENT or OUT_OF_RANGE with a reason.
  virtual Status check_memory(Address address, uint64_t bytes) = 0;
  // For runtimes where a handle of memory is not an address. The address of what another library's
  // handle holds, whose object is kept until memory_leave, once for each memory_of. UNIMPLEMENTED
  // with a reason for memory that has none.
  virtual Status memory_of(uint64_t handle, Address* out) {
    *out = handle;
    return {};
  }
  virtual void memory_leave(Address) {}  // at any place in the memory; also outside of enter()
  // The handle of the memory at an address, and the place in it.
  virtual Status memory_handle(Address address, uint64_t* out_handle, uint64_t* out_offset_bytes) {
    *out_handle = address;
    *out_offset_bytes = 0;
    return {};
  }
  // Whether another library's stream is one of this device: INVALID_ARGUMENT with a reason. A
  // runtime that cannot find out takes every one.
  virtual Status check_stream(StreamHandle) { return {}; }
};

// The device is current as long as it lives.
class Current {
 public:
  explicit Current(Runtime& runtime) : runtime_(runtime), status_(runtime.enter()) {}
  ~Current() {
    if (status_.ok()) runtime_.leave();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  Status status() const { return status_; }

 private:
  Runtime& runtime_;
  Status status_;
};

}  // namespace tenon::stream
#endif
