#include "runtime.h"

#include <cstring>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::mps {
namespace {

// MTLSize, NSRange.
struct Size {
  uint64_t width, height, depth;
};
struct Range {
  uint64_t location, length;
};
constexpr uint64_t kShared = 0;  // MTLResourceStorageModeShared

// MTLCommandBufferStatus and MTLCommandBufferError.
constexpr uint64_t kFailed = 5;
constexpr int64_t kTimeout = 2, kPageFault = 3, kAccessRevoked = 4, kOutOfMemory = 8,
                  kDeviceRemoved = 11;

// Signalled by a command buffer, whose state and times it has.
struct Event {
  Owned shared, buffer;
  uint64_t value = 0;
};

Event& event_of(stream::EventHandle e) {
  return *static_cast<Event*>(e);
}

Status nothing(std::string_view doing) {
  return fail(TENON_RESOURCE_EXHAUSTED, cat("mps: ", doing, ": Metal gives none"));
}

// Waits for a command buffer, and says what became of it.
Status wait_for(Id buffer) {
  send<void>(buffer, "waitUntilCompleted");
  if (send<uint64_t>(buffer, "status") != kFailed) return {};
  const Id error = send<Id>(buffer, "error");
  const int64_t code = send<int64_t>(error, "code");
  const bool lost =
      code == kTimeout || code == kPageFault || code == kAccessRevoked || code == kDeviceRemoved;
  return fail(code == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED
              : lost               ? TENON_DEVICE_LOST
                                   : TENON_INTERNAL,
              cat("mps: work on the device: ", error_text(error)));
}

}  // namespace

// One thread at a time may fill a command buffer.
struct Stream {
  std::mutex mutex;
  Owned queue, buffer, encoder, last;
  bool computes = false;  // the encoder's kind

  Status open() {
    if (buffer) return {};
    buffer = Owned::retain(send<Id>(queue.get(), "commandBuffer"));
    return buffer ? Status() : nothing("making a command buffer");
  }
  Status encode(bool compute) {
    TENON_TRY(open());
    if (encoder && computes == compute) return {};
    close();
    computes = compute;
    encoder = Owned::retain(
        send<Id>(buffer.get(), compute ? "computeCommandEncoder" : "blitCommandEncoder"));
    return encoder ? Status() : nothing("making an encoder");
  }
  void close() {
    if (encoder) send<void>(encoder.get(), "endEncoding");
    encoder = Owned();
  }
  void commit() {
    close();
    if (!buffer) return;
    send<void>(buffer.get(), "commit");
    last = std::move(buffer);
    buffer = Owned();
  }
};

namespace {

Stream& stream_of(stream::StreamHandle s) {
  return *static_cast<Stream*>(s);
}

// The pools of nested enter() and leave() of this thread.
std::vector<void*>& pools() {
  static thread_local std::vector<void*> all;
  return all;
}

}  // namespace

Status Runtime::enter() {
  pools().push_back(nullptr);
  pools().back() = metal().pool_push();
  return {};
}
void Runtime::leave() {
  metal().pool_pop(pools().back());
  pools().pop_back();
}

// ---- Streams and events ----

Status Runtime::stream_create(stream::StreamHandle* out) {
  const ProcessGuard guard;  // a queue may start threads
  auto made = std::make_unique<Stream>();
  made->queue = Owned(send<Id>(device_.get(), "newCommandQueue"));
  if (!made->queue) return nothing("making a command queue");
  *out = made.release();
  return {};
}
Status Runtime::stream_destroy(stream::StreamHandle stream) {
  const std::unique_ptr<Stream> s(&stream_of(stream));
  s->commit();
  return {};
}
Status Runtime::stream_synchronize(stream::StreamHandle stream) {
  Owned last;
  {
    Stream& s = stream_of(stream);
    const std::lock_guard lock(s.mutex);
    s.commit();
    last = Owned::retain(s.last.get());
  }
  return last ? wait_for(last.get()) : Status();
}
Status Runtime::stream_wait(stream::StreamHandle stream, stream::EventHandle event) {
  Stream& s = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  TENON_TRY(s.open());
  s.close();
  send<void>(s.buffer.get(), "encodeWaitForEvent:value:", event_of(event).shared.get(),
             event_of(event).value);
  return {};
}

Status Runtime::event_create(bool, stream::EventHandle* out) {
  auto made = std::make_unique<Event>();
  made->shared = Owned(send<Id>(device_.get(), "newSharedEvent"));
  if (!made->shared) return nothing("making an event");
  *out = made.release();
  return {};
}
void Runtime::event_destroy(stream::EventHandle event) {
  delete &event_of(event);
}
// A command buffer keeps its queue, also when that is gone for everybody else.
void Runtime::event_idle(stream::EventHandle event) {
  event_of(event).buffer = Owned();
}
Status Runtime::event_record(stream::EventHandle event, stream::StreamHandle stream) {
  Event& e = event_of(event);
  Stream& s = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  TENON_TRY(s.open());
  s.close();
  send<void>(s.buffer.get(), "encodeSignalEvent:value:", e.shared.get(), ++e.value);
  s.commit();
  e.buffer = Owned::retain(s.last.get());
  return {};
}
// A command buffer that fails signals nothing, and other queues would wait for it for ever: the
// host signals in its place.
Status Runtime::event_synchronize(stream::EventHandle event) {
  Event& e = event_of(event);
  if (!e.buffer) return {};
  const Status status = wait_for(e.buffer.get());
  if (!status.ok()) send<void>(e.shared.get(), "setSignaledValue:", e.value);
  return status;
}
Status Runtime::event_elapsed(stream::EventHandle from, stream::EventHandle to, float* out_ms) {
  const auto end_of = [](const Event& e) { return send<double>(e.buffer.get(), "GPUEndTime"); };
  *out_ms = static_cast<float>((end_of(event_of(to)) - end_of(event_of(from))) * 1e3);
  return {};
}

// ---- Memory ----

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  Owned buffer(send<Id>(device_.get(), "newBufferWithLength:options:", size_bytes, kShared));
  if (!buffer) return nothing(cat("allocating ", size_bytes, " bytes"));
  *out = reinterpret_cast<stream::Address>(send<void*>(buffer.get(), "contents"));
  const std::lock_guard lock(mutex_);
  memory_.insert_or_assign(*out, Memory{std::move(buffer), size_bytes});
  return {};
}
// Command buffers keep what they use.
Status Runtime::free(stream::Address address) {
  if (let_go(address)) return {};
  return fail(TENON_INTERNAL, "mps: freeing memory: it is none of this device");
}
bool Runtime::let_go(stream::Address address) {
  Owned buffer;  // released when the lock is free again
  const std::lock_guard lock(mutex_);
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return false;
  Memory& memory = (--after)->second;
  if (address - after->first >= memory.size_bytes) return false;
  if (--memory.users != 0) return true;
  buffer = std::move(memory.buffer);
  memory_.erase(after);
  return true;
}
Status Runtime::alloc_pinned(uint64_t size_bytes, void** out) {
  stream::Address address = 0;
  TENON_TRY(alloc(size_bytes, &address));
  *out = reinterpret_cast<void*>(address);
  return {};
}
Status Runtime::free_pinned(void* data) {
  return free(reinterpret_cast<stream::Address>(data));
}

Runtime::Place Runtime::find(stream::Address address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return {};
  const auto& [begin, memory] = *--after;
  const uint64_t offset = address - begin;
  if (offset > memory.size_bytes || bytes > memory.size_bytes - offset) return {};
  return {Owned::retain(memory.buffer.get()), offset};
}
Status Runtime::place(stream::Address address, uint64_t bytes, std::string_view doing, Place* out) {
  *out = find(address, bytes);
  if (out->buffer) return {};
  return fail(TENON_INTERNAL, cat("mps: ", doing, ": memory that is none of this device"));
}
Status Runtime::check_memory(stream::Address address, uint64_t bytes) {
  if (find(address, bytes).buffer) return {};
  return fail(TENON_OUT_OF_RANGE, "mps: the memory ends beyond its buffer");
}

// ---- Memory of others ----

Status Runtime::memory_of(uint64_t handle, stream::Address* out) {
  const Id buffer = reinterpret_cast<Id>(handle);
  if (send<Id>(buffer, "device") != device_.get())
    return fail(TENON_INVALID_ARGUMENT, "mps: the buffer is not one of this GPU");
  *out = reinterpret_cast<stream::Address>(send<void*>(buffer, "contents"));
  if (*out == 0)
    return fail(TENON_UNIMPLEMENTED,
                "mps: memory of the GPU alone (MTLStorageModePrivate) must be copied");
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] =
      memory_.try_emplace(*out, Memory{Owned::retain(buffer), send<uint64_t>(buffer, "length")});
  if (is_new) return {};
  if (known->second.buffer.get() != buffer)
    return fail(TENON_UNIMPLEMENTED,
                "mps: another buffer over memory that is in use already must be copied");
  ++known->second.users;
  return {};
}
void Runtime::memory_leave(stream::Address address) {
  (void)let_go(address);
}
Status Runtime::memory_handle(stream::Address address, uint64_t* out_handle,
                              uint64_t* out_offset_bytes) {
  const Place found = find(address, 0);
  if (!found.buffer)
    return fail(TENON_INTERNAL, "mps: giving out memory: it is none of this device");
  *out_handle = reinterpret_cast<uint64_t>(found.buffer.get());
  *out_offset_bytes = found.offset;
  return {};
}

Status Runtime::copy(Stream& s, const Place& to, const Place& from, uint64_t bytes) {
  const std::lock_guard lock(s.mutex);
  TENON_TRY(s.encode(false));
  send<void>(s.encoder.get(),
             "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", from.buffer.get(),
             from.offset, to.buffer.get(), to.offset, bytes);
  return {};
}
// Memory of the host that is none of Metal's is copied into a buffer first.
Status Runtime::copy_in(stream::StreamHandle stream, stream::Address to, const void* from,
                        uint64_t bytes) {
  Place target, source = find(reinterpret_cast<stream::Address>(from), bytes);
  TENON_TRY(place(to, bytes, "copying to the device", &target));
  if (!source.buffer) {
    source.buffer =
        Owned(send<Id>(device_.get(), "newBufferWithBytes:length:options:", from, bytes, kShared));
    if (!source.buffer) return nothing("copying to the device");
  }
  return copy(stream_of(stream), target, source, bytes);
}
Status Runtime::copy_out(stream::StreamHandle stream, void* to, stream::Address from,
                         uint64_t bytes) {
  Place source;
  TENON_TRY(place(from, bytes, "copying from the device", &source));
  const Place target = find(reinterpret_cast<stream::Address>(to), bytes);
  if (target.buffer) return copy(stream_of(stream), target, source, bytes);
  TENON_TRY(stream_synchronize(stream));
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return {};
}
Status Runtime::copy_within(stream::StreamHandle stream, stream::Address to, stream::Address from,
                            uint64_t bytes) {
  Place target, source;
  TENON_TRY(place(to, bytes, "copying on the device", &target));
  TENON_TRY(place(from, bytes, "copying on the device", &source));
  return copy(stream_of(stream), target, source, bytes);
}
// Metal fills with bytes; a wider pattern is written by the host and copied.
Status Runtime::fill(stream::StreamHandle stream, stream::Address to, uint32_t pattern,
                     uint32_t width, uint64_t count) {
  Stream& s = stream_of(stream);
  Place target;
  TENON_TRY(place(to, width * count, "filling memory", &target));
  if (width == 1) {
    const std::lock_guard lock(s.mutex);
    TENON_TRY(s.encode(false));
    send<void>(s.encoder.get(), "fillBuffer:range:value:", target.buffer.get(),
               Range{target.offset, count}, static_cast<uint8_t>(pattern));
    return {};
  }
  Place source;
  source.buffer = Owned(
      send<Id>(device_.get(), "newBufferWithLength:options:", uint64_t{width} * count, kShared));
  if (!source.buffer) return nothing("filling memory");
  auto* bytes = static_cast<char*>(send<void*>(source.buffer.get(), "contents"));
  for (uint64_t i = 0; i < count; ++i) std::memcpy(bytes + i * width, &pattern, width);
  return copy(s, target, source, width * count);
}

// ---- Kernels ----

Status Runtime::pipeline(Id library, const std::string& name, Module::Kernel* out) {
  constexpr uint64_t kSimd = 32;  // which the text is written for
  const Owned called = string_of(name);
  const Owned function(send<Id>(library, "newFunctionWithName:", called.get()));
  if (!function) return fail(TENON_INTERNAL, cat("mps: there is no kernel ", name));
  Id error = nullptr;
  out->pipeline = Owned(send<Id>(
      device_.get(), "newComputePipelineStateWithFunction:error:", function.get(), &error));
  if (!out->pipeline)
    return fail(TENON_INTERNAL, cat("mps: preparing ", name, ": ", error_text(error)));
  const auto simd = send<uint64_t>(out->pipeline.get(), "threadExecutionWidth");
  if (simd == kSimd) return {};
  return fail(TENON_UNAVAILABLE, cat("mps: SIMD groups of this GPU have ", simd,
                                     " work items, and the code is for ", kSimd));
}

Status Runtime::load(std::string_view text, uint64_t version,
                     const kernelgen::DeviceProgram& program,
                     std::unique_ptr<kernelgen::LoadedText>* out) {
  const ProcessGuard guard;  // the compiler starts threads
  const Pool pool;
  const Owned options(send<Id>(metal().get_class("MTLCompileOptions"), "new"));
  send<void>(options.get(), "setFastMathEnabled:", static_cast<signed char>(0));
  send<void>(options.get(), "setLanguageVersion:", version);
  const Owned source = string_of(text);
  Id error = nullptr;
  const Owned library(send<Id>(device_.get(), "newLibraryWithSource:options:error:", source.get(),
                               options.get(), &error));
  if (!library)
    return fail(TENON_INTERNAL, cat("mps: Metal does not compile the text: ", error_text(error)));
  auto loaded = std::make_unique<Module>();
  for (const kernelgen::ProgramKernel& kernel : program.kernels) {
    Module::Kernel& made = loaded->kernels.emplace_back();
    made.buffers = kernel.buffer_count;
    made.extents = kernel.extent_count;
    made.scratch = !kernel.scratch_bytes.words.empty();
    TENON_TRY(pipeline(library.get(), kernel.entry, &made));
    const auto most = send<uint64_t>(made.pipeline.get(), "maxTotalThreadsPerThreadgroup");
    if (kernel.group > most)
      return fail(TENON_RESOURCE_EXHAUSTED,
                  cat("mps: groups of ", kernel.entry, " have ", kernel.group,
                      " work items, and this GPU allows ", most, " for it"));
  }
  *out = std::move(loaded);
  return {};
}

// A kernel gets its buffers, then sizes, then scratch. Its positions have 32 bits.
Status Runtime::launch(stream::StreamHandle stream, kernelgen::LoadedText& code,
                       const stream::Launch& launch) {
  if (launch.group == 0 || launch.groups > UINT32_MAX / launch.group)
    return fail(TENON_OUT_OF_RANGE,
                cat("mps: ", launch.name, " needs ", launch.groups, " groups of ", launch.group,
                    ", more than ", UINT32_MAX, " work items"));
  const Module::Kernel& kernel = static_cast<Module&>(code).kernels[launch.kernel];
  const uint32_t sizes_end = kernel.buffers + kernel.extents;
  std::vector<Place> places(sizes_end + 1);
  for (uint32_t i = 0; i <= sizes_end; ++i) {
    const bool memory = i < kernel.buffers || (i == sizes_end && kernel.scratch);
    if (memory && launch.arguments[i] != 0)
      TENON_TRY(place(launch.arguments[i], 0, cat("starting ", launch.name), &places[i]));
  }
  Stream& s = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  TENON_TRY(s.encode(true));
  const Id encoder = s.encoder.get();
  send<void>(encoder, "setComputePipelineState:", kernel.pipeline.get());
  for (uint64_t i = 0; i <= sizes_end; ++i) {
    if (i >= kernel.buffers && i < sizes_end) {
      send<void>(encoder,
                 "setBytes:length:atIndex:", static_cast<const void*>(&launch.arguments[i]),
                 uint64_t{sizeof(int64_t)}, i);
    } else if (places[i].buffer) {
      send<void>(encoder, "setBuffer:offset:atIndex:", places[i].buffer.get(), places[i].offset, i);
    }
  }
  send<void>(encoder, "dispatchThreadgroups:threadsPerThreadgroup:", Size{launch.groups, 1, 1},
             Size{launch.group, 1, 1});
  return {};
}

}  // namespace tenon::mps
