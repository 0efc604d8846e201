// Metal for machines without it: the methods that the mps plugin calls, over the tests' CUDA
// driver, whose memory, streams and injected faults it has. Text becomes PTX by a shim of Metal's
// library.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "../cuda/driver.h"
#include "../cuda/text.h"
#include "../hip/cuda_functions.h"
#include "objc.h"

using namespace fake_cuda;
using fake_metal::Object;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Selector = const char*;
using fake_metal::autoreleased;
using fake_metal::Class;
using fake_metal::method;

struct Current {
  Current() { current().push_back(&World::get().primary[0]); }
  ~Current() { current().pop_back(); }
};
template <class F, class... Args>
int on_device(F* function, Args... args) {
  const Current in;
  return function(args...);
}
// Whether the tests let this call fail.
bool fails(const char* name) {
  return World::get().begin_call(name) != 0 || World::get().lost() != 0;
}

// ---- Foundation ----

struct String : Object {
  String();
  std::string text;
};
struct Error : Object {
  Error(int64_t why, std::string words);
  int64_t code;
  std::string text;
};
void report(Object** error, int64_t code, const std::string& text) {
  if (error != nullptr) *error = autoreleased(new Error(code, text));
}

String* string_alloc(Object*, Selector) {
  return new String;
}
String* string_init(String* self, Selector, const char* bytes, uint64_t length, uint64_t encoding) {
  if (encoding != 4) return nullptr;
  self->text.assign(bytes, length);
  return self;
}
const char* string_text(String* self, Selector) {
  return self->text.c_str();
}
const Class kString = {
    "NSString",
    {{"initWithBytes:length:encoding:", method(string_init)}, {"UTF8String", method(string_text)}}};
String::String() : Object(kString) {}

String* new_string(const std::string& text) {
  auto* made = new String;
  made->text = text;
  return autoreleased(made);
}
String* error_words(Error* self, Selector) {
  return new_string(self->text);
}
int64_t error_code(Error* self, Selector) {
  return self->code;
}
const Class kError = {
    "NSError", {{"localizedDescription", method(error_words)}, {"code", method(error_code)}}};
Error::Error(int64_t why, std::string words) : Object(kError), code(why), text(std::move(words)) {}

// ---- Memory and events ----

struct Buffer : Object {
  Buffer(unsigned long long at, uint64_t skipped, uint64_t length);
  ~Buffer() override { (void)cuMemFree_v2(begin); }
  const unsigned long long begin, address;
  unsigned char* const data;
  const uint64_t size;
};
void* buffer_contents(Buffer* self, Selector) {
  return self->data;
}
uint64_t buffer_length(Buffer* self, Selector) {
  return self->size;
}
Object* the_device();
Object* buffer_device(Buffer*, Selector) {
  return the_device();
}
const Class kBuffer = {"MTLBuffer",
                       {{"contents", method(buffer_contents)},
                        {"length", method(buffer_length)},
                        {"device", method(buffer_device)}}};
Buffer::Buffer(unsigned long long at, uint64_t skipped, uint64_t length)
    : Object(kBuffer),
      begin(at),
      address(at + skipped),
      data(World::get().range(0, address, length)),
      size(length) {}

Buffer* make_buffer(uint64_t length, uint64_t options) {
  constexpr uint64_t kAligned = 256;
  unsigned long long at = 0;
  if (options != 0 || length > settings().memory ||
      on_device(cuMemAlloc_v2, &at, size_t{length + kAligned}) != 0)
    return nullptr;
  // The host's address is what the plugin sees.
  const auto host = reinterpret_cast<uint64_t>(World::get().range(0, at, 1));
  return new Buffer(at, (kAligned - host % kAligned) % kAligned, length);
}
Buffer* device_buffer(Object*, Selector, uint64_t length, uint64_t options) {
  return make_buffer(length, options);
}
Buffer* device_buffer_with(Object*, Selector, const void* bytes, uint64_t length,
                           uint64_t options) {
  Buffer* made = make_buffer(length, options);
  if (made != nullptr) std::memcpy(made->data, bytes, length);
  return made;
}

struct SharedEvent : Object {
  SharedEvent();
  void set(uint64_t to) {
    const std::lock_guard lock(mutex);
    value = std::max(value, to);
    changed.notify_all();
  }
  void wait(uint64_t until) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return value >= until; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t value = 0;
};
void event_set(SharedEvent* self, Selector, uint64_t value) {
  self->set(value);
}
const Class kSharedEvent = {"MTLSharedEvent", {{"setSignaledValue:", method(event_set)}}};
SharedEvent::SharedEvent() : Object(kSharedEvent) {}

SharedEvent* device_event(Object*, Selector) {
  return fails("newSharedEvent") ? nullptr : new SharedEvent;
}

// ---- Command buffers ----

struct Queue : Object {
  explicit Queue(void* on);
  ~Queue() override { (void)cuStreamDestroy_v2(stream); }
  void* const stream;
};

struct Commands : Object {
  explicit Commands(Queue* of);
  ~Commands() override {
    end_uses();
    fake_metal::release(queue);
  }
  // What a command buffer uses lives until it is done.
  void end_uses() {
    steps.clear();
    for (Object* used : uses) fake_metal::release(used);
    uses.clear();
  }
  template <class T>
  T* use(T* object) {
    uses.push_back(fake_metal::retain(object));
    return object;
  }
  using Step = std::function<int()>;
  Queue* const queue;
  std::vector<Step> steps;
  std::vector<Object*> uses;
  bool encoding = false, committed = false;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int code = 0;
  double end = 0;
};

struct Encoder : Object {
  Encoder(const Class& of, Commands* for_commands)
      : Object(of), commands(fake_metal::retain(for_commands)) {}
  ~Encoder() override {
    if (!ended) std::fprintf(stderr, "fake metal: an encoder was not ended\n"), std::abort();
    fake_metal::release(commands);
  }
  Commands* const commands;
  bool ended = false;
  Object* pipeline = nullptr;
  struct Argument {
    Buffer* buffer = nullptr;
    uint64_t offset = 0, value = 0;
  };
  std::vector<Argument> arguments = std::vector<Argument>(32);
};
void end_encoding(Encoder* self, Selector) {
  self->ended = true;
  self->commands->encoding = false;
}

struct Size {
  uint64_t width, height, depth;
};
struct Range {
  uint64_t location, length;
};

void blit_copy(Encoder* self, Selector, Buffer* from, uint64_t from_at, Buffer* to, uint64_t to_at,
               uint64_t bytes) {
  Commands& c = *self->commands;
  c.use(from), c.use(to);
  c.steps.push_back([=, stream = c.queue->stream] {
    if (from_at + bytes > from->size || to_at + bytes > to->size) return int{kInvalidValue};
    return on_device(cuMemcpyDtoDAsync_v2, to->address + to_at, from->address + from_at,
                     size_t{bytes}, stream);
  });
}
void blit_fill(Encoder* self, Selector, Buffer* to, Range range, uint8_t value) {
  Commands& c = *self->commands;
  c.use(to);
  c.steps.push_back([=, stream = c.queue->stream] {
    if (range.location + range.length > to->size) return int{kInvalidValue};
    return on_device(cuMemsetD8Async, to->address + range.location,
                     static_cast<unsigned char>(value), size_t{range.length}, stream);
  });
}
const Class kBlit = {
    "MTLBlitCommandEncoder",
    {{"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", method(blit_copy)},
     {"fillBuffer:range:value:", method(blit_fill)},
     {"endEncoding", method(end_encoding)}}};

// ---- Code ----

struct Library : Object {
  explicit Library(void* loaded);
  ~Library() override { (void)cuModuleUnload(module); }
  void* const module;
};
struct Kernel : Object {
  Kernel(const Class& of, Library* in, void* found)
      : Object(of), library(fake_metal::retain(in)), function(found) {}
  ~Kernel() override { fake_metal::release(library); }
  Library* const library;
  void* const function;
};
uint64_t pipeline_threads(Kernel* self, Selector) {
  return static_cast<Function*>(self->function)->kernel->max_threads;
}
uint64_t pipeline_width(Object*, Selector) {
  return 32;
}
const Class kFunction = {"MTLFunction", {}};
const Class kPipeline = {"MTLComputePipelineState",
                         {{"maxTotalThreadsPerThreadgroup", method(pipeline_threads)},
                          {"threadExecutionWidth", method(pipeline_width)}}};

// The indices of a work item are not parameters in PTX; the shim has them as macros.
std::string for_clang(std::string text) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace(
      ", u32 item [[thread_position_in_threadgroup]], u32 group "
      "[[threadgroup_position_in_grid]]",
      "");
  replace("[[kernel, ", "extern \"C\" [[kernel, ");
  return text;
}

struct Options : Object {
  Options();
  bool fast_math = true;
  uint64_t version = 0;
};
Options* options_new(Object*, Selector) {
  return new Options;
}
void options_math(Options* self, Selector, signed char on) {
  self->fast_math = on != 0;
}
void options_version(Options* self, Selector, uint64_t version) {
  self->version = version;
}
const Class kOptions = {"MTLCompileOptions",
                        {{"setFastMathEnabled:", method(options_math)},
                         {"setLanguageVersion:", method(options_version)}}};
Options::Options() : Object(kOptions) {}

Kernel* library_function(Library* self, Selector, String* name) {
  void* found = nullptr;
  if (cuModuleGetFunction(&found, self->module, name->text.c_str()) != 0) return nullptr;
  return new Kernel(kFunction, self, found);
}
const Class kLibrary = {"MTLLibrary", {{"newFunctionWithName:", method(library_function)}}};
Library::Library(void* loaded) : Object(kLibrary), module(loaded) {}

constexpr uint64_t kNewest = 0x30001;  // the language of this Metal: 3.1

Library* device_library(Object*, Selector, String* text, Options* options, Object** error) {
  if (fails("newLibraryWithSource")) return report(error, 3, "the compiler is not there"), nullptr;
  if (options->version > kNewest)
    return report(error, 2, "this version of the language is not known"), nullptr;
  static std::map<std::string, std::string> known;
  static std::mutex mutex;
  std::string ptx, why;
  {
    const std::lock_guard lock(mutex);
    std::string& made = known[text->text];
    const std::vector<std::string> flags = {"-x",
                                            "c++",
                                            "-std=c++17",
                                            "-target",
                                            "nvptx64-nvidia-cuda",
                                            "-march=sm_80",
                                            "-nogpulib",
                                            "-nostdinc",
                                            "-isystem",
                                            FAKE_METAL_FOLDER,
                                            "-ffp-contract=fast-honor-pragmas",
                                            "-Wno-unknown-attributes",
                                            "-Wno-unused"};
    const bool probe = text->text == "kernel void nothing() {}";
    if (!probe && made.empty() && !to_ptx(for_clang(text->text), flags, &made, &why))
      return report(error, 3, why), nullptr;
    if (probe) made = ".version 7.0\n.target sm_80\n.address_size 64\n";
    ptx = made;
  }
  void* module = nullptr;
  if (on_device(cuModuleLoadDataEx, &module, static_cast<const void*>(ptx.c_str()), 0u,
                static_cast<int*>(nullptr), static_cast<void**>(nullptr)) != 0)
    return report(error, 1, "the text is refused"), nullptr;
  return new Library(module);
}
Kernel* device_pipeline(Object*, Selector, Kernel* function, Object** error) {
  if (fails("newComputePipelineState")) return report(error, 1, "there is no pipeline"), nullptr;
  return new Kernel(kPipeline, function->library, function->function);
}

// ---- Launches ----

void compute_pipeline(Encoder* self, Selector, Kernel* pipeline) {
  self->pipeline = self->commands->use(pipeline);
}
void compute_buffer(Encoder* self, Selector, Buffer* buffer, uint64_t offset, uint64_t index) {
  self->arguments.at(index) = {self->commands->use(buffer), offset, 0};
}
// Metal keeps the bytes; a kernel reads them by address.
void compute_bytes(Encoder* self, Selector, const void* bytes, uint64_t length, uint64_t index) {
  Buffer* kept = make_buffer(length, 0);
  if (kept == nullptr) {
    self->commands->steps.push_back([] { return int{kOutOfMemory}; });
    return;
  }
  std::memcpy(kept->data, bytes, length);
  self->arguments.at(index) = {self->commands->use(kept), 0, 0};
  fake_metal::release(kept);
}
void compute_dispatch(Encoder* self, Selector, Size groups, Size threads) {
  Commands& c = *self->commands;
  auto* const function = static_cast<Kernel*>(self->pipeline)->function;
  std::vector<uint64_t> values;
  for (const Encoder::Argument& a : self->arguments)
    values.push_back(a.buffer == nullptr ? 0 : a.buffer->address + a.offset);
  c.steps.push_back([=, stream = c.queue->stream]() mutable {
    if (groups.height != 1 || groups.depth != 1 || threads.height != 1 || threads.depth != 1)
      return int{kInvalidValue};
    std::vector<void*> parameters;
    for (uint64_t& v : values) parameters.push_back(&v);
    return on_device(cuLaunchKernel, function, static_cast<unsigned>(groups.width), 1u, 1u,
                     static_cast<unsigned>(threads.width), 1u, 1u, 0u, stream, parameters.data(),
                     static_cast<void**>(nullptr));
  });
}
const Class kCompute = {"MTLComputeCommandEncoder",
                        {{"setComputePipelineState:", method(compute_pipeline)},
                         {"setBuffer:offset:atIndex:", method(compute_buffer)},
                         {"setBytes:length:atIndex:", method(compute_bytes)},
                         {"dispatchThreadgroups:threadsPerThreadgroup:", method(compute_dispatch)},
                         {"endEncoding", method(end_encoding)}}};

Encoder* new_encoder(Commands* self, const Class& of) {
  if (fails("commandEncoder")) return nullptr;
  if (self->encoding || self->committed)
    std::fprintf(stderr, "fake metal: two encoders of one command buffer\n"), std::abort();
  self->encoding = true;
  return autoreleased(new Encoder(of, self));
}
Encoder* commands_compute(Commands* self, Selector) {
  return new_encoder(self, kCompute);
}
Encoder* commands_blit(Commands* self, Selector) {
  return new_encoder(self, kBlit);
}
void outside_of_encoders(const Commands& c) {
  if (c.encoding) std::fprintf(stderr, "fake metal: an encoder is not ended\n"), std::abort();
}
void commands_signal(Commands* self, Selector, SharedEvent* event, uint64_t value) {
  outside_of_encoders(*self);
  self->use(event);
  self->steps.push_back([=] {
    static_cast<Stream*>(self->queue->stream)->put([=] {
      if (self->code == 0 && World::get().lost() == 0) event->set(value);
    });
    return 0;
  });
}
void commands_wait(Commands* self, Selector, SharedEvent* event, uint64_t value) {
  outside_of_encoders(*self);
  self->use(event);
  self->steps.push_back([=] {
    static_cast<Stream*>(self->queue->stream)->put([=] { event->wait(value); });
    return 0;
  });
}
// Command buffers that are done. Their queue's thread must not release them: the last one takes the
// queue with it.
std::mutex& mutex_of_finished() {
  static std::mutex mutex;
  return mutex;
}
// Never destroyed: the last ones are still in it when the process ends.
std::vector<Commands*>& finished() {
  static auto* const all = new std::vector<Commands*>;
  return *all;
}
void let_go() {
  std::vector<Commands*> all;
  {
    const std::lock_guard lock(mutex_of_finished());
    all.swap(finished());
  }
  for (Commands* c : all) fake_metal::release(c);
}
// After a step that fails the rest is left out.
void commands_commit(Commands* self, Selector) {
  let_go();
  outside_of_encoders(*self);
  self->committed = true;
  self->code = World::get().begin_call("commit");
  for (const Commands::Step& step : self->steps) {
    if (self->code == 0) self->code = step();
  }
  static_cast<Stream*>(self->queue->stream)->put([self = fake_metal::retain(self)] {
    self->end_uses();
    {
      const std::lock_guard lock(self->mutex);
      if (self->code == 0) self->code = World::get().lost();
      self->end = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                      .count();
      self->done = true;
      self->changed.notify_all();
    }
    const std::lock_guard lock(mutex_of_finished());
    finished().push_back(self);
  });
}
void commands_until_done(Commands* self, Selector) {
  std::unique_lock lock(self->mutex);
  self->changed.wait(lock, [&] { return self->done; });
}
uint64_t commands_status(Commands* self, Selector) {
  return self->code != 0 ? 5 : self->done ? 4 : 3;
}
Error* commands_error(Commands* self, Selector) {
  if (self->code == 0) return nullptr;
  const int64_t code = self->code == kOutOfMemory                                     ? 8
                       : self->code == kLaunchTimeout                                 ? 2
                       : self->code == kIllegalAddress || self->code == kLaunchFailed ? 3
                                                                                      : 1;
  return autoreleased(new Error(code, name_of(self->code)));
}
double commands_end(Commands* self, Selector) {
  return self->end;
}
const Class kCommands = {"MTLCommandBuffer",
                         {{"computeCommandEncoder", method(commands_compute)},
                          {"blitCommandEncoder", method(commands_blit)},
                          {"encodeSignalEvent:value:", method(commands_signal)},
                          {"encodeWaitForEvent:value:", method(commands_wait)},
                          {"commit", method(commands_commit)},
                          {"waitUntilCompleted", method(commands_until_done)},
                          {"status", method(commands_status)},
                          {"error", method(commands_error)},
                          {"GPUEndTime", method(commands_end)}}};
Commands::Commands(Queue* of) : Object(kCommands), queue(fake_metal::retain(of)) {}

Commands* queue_commands(Queue* self, Selector) {
  return fails("commandBuffer") ? nullptr : autoreleased(new Commands(self));
}
const Class kQueue = {"MTLCommandQueue", {{"commandBuffer", method(queue_commands)}}};
Queue::Queue(void* on) : Object(kQueue), stream(on) {}

// ---- Devices ----

Queue* device_queue(Object*, Selector) {
  void* stream = nullptr;
  return on_device(cuStreamCreate, &stream, 1u) == 0 ? new Queue(stream) : nullptr;
}
String* device_name(Object*, Selector) {
  return new_string("the tests' Apple GPU");
}
uint64_t device_memory(Object*, Selector) {
  return settings().memory;
}
uint64_t device_shared(Object*, Selector) {
  return 32 << 10;
}
const Class kDevice = {"MTLDevice",
                       {{"name", method(device_name)},
                        {"recommendedMaxWorkingSetSize", method(device_memory)},
                        {"maxThreadgroupMemoryLength", method(device_shared)},
                        {"newBufferWithLength:options:", method(device_buffer)},
                        {"newBufferWithBytes:length:options:", method(device_buffer_with)},
                        {"newCommandQueue", method(device_queue)},
                        {"newSharedEvent", method(device_event)},
                        {"newLibraryWithSource:options:error:", method(device_library)},
                        {"newComputePipelineStateWithFunction:error:", method(device_pipeline)}}};

uint64_t array_count(Object*, Selector) {
  return static_cast<uint64_t>(settings().devices);
}
Object* the_device() {
  static Object device(kDevice);
  return &device;
}
Object* array_at(Object*, Selector, uint64_t) {
  return the_device();
}
const Class kArray = {"NSArray",
                      {{"count", method(array_count)}, {"objectAtIndex:", method(array_at)}}};

}  // namespace

EXPORT Object* MTLCopyAllDevices() {
  if (cuInit(0) == 0) World::get().contexts = 1;
  return new Object(kArray);
}
EXPORT Object* objc_getClass(const char* name) {
  static const Class string = {"NSString", {{"alloc", method(string_alloc)}}};
  static const Class options = {"MTLCompileOptions", {{"new", method(options_new)}}};
  static Object string_class(string), options_class(options);
  if (std::strcmp(name, "NSString") == 0) return &string_class;
  return std::strcmp(name, "MTLCompileOptions") == 0 ? &options_class : nullptr;
}
EXPORT void fake_metal_fail_in(uint64_t n, int code) {
  World::get().fail_in(n, code);
}
// Memory and objects. Events are kept for the next user, as on the other drivers of the tests, each
// with the command buffer that signals it; a queue has its last one.
EXPORT uint64_t fake_metal_in_use() {
  for (Stream* stream : World::get().streams) stream->wait();
  let_go();
  const uint64_t events = kSharedEvent.living, commands = kCommands.living;
  const uint64_t kept = events + std::min<uint64_t>(commands, events + kQueue.living);
  return World::get().memory_in_use() + fake_metal::living() - kept;
}
EXPORT uint64_t fake_metal_calls() {
  return World::get().calls();
}
